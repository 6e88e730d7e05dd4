package judge

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"tips/internal/atomicfile"
	"tips/supernet"
)

// A cache file is
//
//	magic    12 bytes
//	version  1 byte
//	records  each a little-endian uint32, the length of its body; the body; and
//	         16 bytes, the beginning of the SHA-256 of both
//
// It is the one file that is not written through atomicfile: it grows with every
// verdict. A record counts if all of it is there, and what follows the last one that
// does is cut off. record.go has the body.
const (
	magic        = "tips-judged\n"
	cacheVersion = 1
	headerBytes  = len(magic) + 1

	lengthBytes   = 4
	checksumBytes = 16
	// maxBody bounds a record, and maxCache the file: beyond it, it is written anew with
	// the latest verdicts of the judge that found it full.
	maxBody  = 64 << 20
	maxCache = 1 << 30
)

// Errors that cache files are refused with.
var (
	ErrCorrupt = errors.New("damaged cache of verdicts")
	ErrVersion = errors.New("unknown version of a cache of verdicts")
)

// errLost is a record that is no longer where it was.
var errLost = errors.New("judge: a record of the cache is gone")

// cache is a cache file, as one judge sees it. Others, in this process or another,
// may have it open too: whoever writes holds a lock on the file, and first reads what
// the others wrote. One goroutine at a time may use it.
type cache struct {
	name    string
	network *supernet.Network
	key     [sha256.Size]byte // of the judge's identity
	most    int64             // bytes of the file

	file    *os.File
	end     int64 // of what was read of it
	found   map[supernet.Subnet]record
	dropped int64
}

// openCache opens a cache file, or makes it.
func openCache(name string, n *supernet.Network, identity string) (*cache, error) {
	c := &cache{name: name, network: n, key: sha256.Sum256([]byte(identity)), most: maxCache, found: map[supernet.Subnet]record{}}
	err := c.open()
	if err == nil {
		err = c.locked(c.catchUp)
	}
	if err != nil {
		if c.file != nil {
			c.file.Close()
		}
		return nil, c.wrap(err)
	}
	return c, nil
}

// wrap names the file in an error.
func (c *cache) wrap(err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("cache %s: %w", c.name, err)
}

func (c *cache) open() error {
	if info, err := os.Stat(c.name); err == nil && !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	f, err := os.OpenFile(c.name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	c.file, c.end = f, 0
	clear(c.found)
	return nil
}

// Close closes the file.
func (c *cache) Close() error { return c.wrap(errors.Join(c.file.Sync(), c.file.Close())) }

// locked calls do while no other process may write.
func (c *cache) locked(do func() error) error {
	for {
		if err := lock(c.file); err != nil {
			return err
		}
		mine, err := c.file.Stat()
		if err != nil {
			return err
		}
		if there, err := os.Stat(c.name); err == nil && os.SameFile(mine, there) {
			break
		}
		// Somebody has written it anew, or removed it.
		_ = unlock(c.file)
		c.file.Close()
		if err := c.open(); err != nil {
			return err
		}
	}
	return errors.Join(do(), unlock(c.file))
}

// catchUp reads what was added to the file since it was read last, and cuts off what
// is no whole record.
func (c *cache) catchUp() error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size == c.end && size > 0 {
		return nil
	}
	if size < c.end { // it was cut off
		clear(c.found)
		c.end = 0
	}
	if c.end == 0 {
		if err := c.header(size); err != nil {
			return err
		}
		size = max(size, c.end)
	}
	if err := c.scan(size); err != nil {
		return err
	}
	if c.end < size {
		c.dropped += size - c.end
		return c.file.Truncate(c.end)
	}
	return nil
}

// header checks the beginning of the file, or writes it where there is less than
// that.
func (c *cache) header(size int64) error {
	want := append([]byte(magic), cacheVersion)
	have := make([]byte, min(size, int64(headerBytes)))
	if _, err := c.file.ReadAt(have, 0); err != nil {
		return err
	}
	if !bytes.HasPrefix([]byte(magic), have[:min(len(have), len(magic))]) {
		return fmt.Errorf("%w: it does not begin as one does", ErrCorrupt)
	}
	if len(have) == headerBytes && have[len(magic)] != cacheVersion {
		return fmt.Errorf("%w: %d; this program reads version %d", ErrVersion, have[len(magic)], cacheVersion)
	}
	if len(have) < headerBytes {
		if _, err := c.file.WriteAt(want, 0); err != nil {
			return err
		}
	}
	c.end = int64(headerBytes)
	return nil
}

// scan reads records up to size or to the first that is not whole.
func (c *cache) scan(size int64) error {
	r := bufio.NewReaderSize(io.NewSectionReader(c.file, c.end, size-c.end), 1<<20)
	for {
		body, err := readRecord(r, size-c.end)
		if err != nil || body == nil {
			return err
		}
		length := frameBytes(len(body))
		s, v, ours, err := c.decode(body)
		if err != nil {
			return fmt.Errorf("%w: at byte %d: %w; remove it", ErrCorrupt, c.end, err)
		}
		if ours {
			v.at, v.length = c.end, length
			v.statistics = nil // read again when they are asked for
			if old, known := c.found[s]; !known || v.stored || !old.stored {
				c.found[s] = v
			}
		}
		c.end += length
	}
}

// frameBytes is what a record with a body of some bytes takes.
func frameBytes(body int) int64 { return int64(lengthBytes + body + checksumBytes) }

// readRecord reads a body, of a record that may take no more than left bytes; nil
// where there is none that is whole.
func readRecord(r io.Reader, left int64) ([]byte, error) {
	if left < frameBytes(0) {
		return nil, nil
	}
	var head [lengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > maxBody || frameBytes(int(length)) > left {
		return nil, nil
	}
	rest := make([]byte, int(length)+checksumBytes)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	body := rest[:length]
	if checksum(head[:], body) != [checksumBytes]byte(rest[length:]) {
		return nil, nil
	}
	return body, nil
}

func checksum(head, body []byte) [checksumBytes]byte {
	h := sha256.New()
	h.Write(head)
	h.Write(body)
	return [checksumBytes]byte(h.Sum(nil))
}

// frame makes a record of a body.
func frame(body []byte) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	sum := checksum(head, body)
	return append(append(head, body...), sum[:]...)
}

// add writes a verdict down and returns it as it is kept, its statistics in the file.
func (c *cache) add(s supernet.Subnet, v record) (record, error) {
	body, err := c.encode(s, v)
	if err != nil {
		return v, c.wrap(err)
	}
	if len(body) > maxBody { // kept in memory alone
		return v, nil
	}
	data := frame(body)
	err = c.locked(func() error {
		if err := c.catchUp(); err != nil {
			return err
		}
		if c.end+int64(len(data)) <= c.most {
			return c.append(data)
		}
		return c.rewrite(data)
	})
	if err != nil {
		return v, c.wrap(err)
	}
	v.at, v.length = c.end-int64(len(data)), int64(len(data))
	v.stored = v.statistics != nil
	v.statistics = nil
	c.found[s] = v
	return v, nil
}

// append adds a record in one write. What a write that failed may have left is cut
// off: the next one begins where it did.
func (c *cache) append(data []byte) error {
	if _, err := c.file.WriteAt(data, c.end); err != nil {
		_ = c.file.Truncate(c.end)
		return err
	}
	c.end += int64(len(data))
	return nil
}

// rewrite replaces a file that is full by one with the latest verdicts of this
// judge, to half its size at most, and one more record.
func (c *cache) rewrite(last []byte) error {
	keep := c.latest(c.most/2 - int64(len(last)))
	err := atomicfile.Write(c.name, func(w io.Writer) error {
		if _, err := w.Write(append([]byte(magic), cacheVersion)); err != nil {
			return err
		}
		for _, r := range keep {
			if _, err := io.Copy(w, io.NewSectionReader(c.file, r.at, r.length)); err != nil {
				return err
			}
		}
		_, err := w.Write(last)
		return err
	})
	if err != nil {
		return err
	}
	old := c.file
	if err := c.open(); err != nil {
		return err
	}
	_ = unlock(old)
	old.Close()
	if err := lock(c.file); err != nil {
		return err
	}
	return c.catchUp()
}
