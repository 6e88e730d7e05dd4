package judge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sync"

	"tips/dataset"
	"tips/supernet"
)

// images are batches to calibrate on or to judge by, the same ones in the same order
// every time. Few enough are kept as the network takes them: a judgement of a small
// network takes hardly longer than decoding its images.
type images struct {
	loader *dataset.Loader
	keep   bool

	mu   sync.Mutex
	kept []*dataset.Batch
}

// epoch goes through the batches once and tells taken about the images of each.
func (m *images) epoch(ctx context.Context, taken func(images int)) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		for batch, err := range m.all(ctx) {
			if err == nil {
				taken(batch.N)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (m *images) all(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	if !m.keep {
		return m.loader.Epoch(ctx, 0, 0)
	}
	return func(yield func(*dataset.Batch, error) bool) {
		kept, err := m.load(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, batch := range kept {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// load decodes all batches, if nobody did before.
func (m *images) load(ctx context.Context) ([]*dataset.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept != nil {
		return m.kept, nil
	}
	var list []*dataset.Batch
	for batch, err := range m.loader.Epoch(ctx, 0, 0) {
		if err != nil {
			return nil, err
		}
		list = append(list, &dataset.Batch{N: batch.N, Images: slices.Clone(batch.Images), Labels: slices.Clone(batch.Labels)})
	}
	m.kept = list
	return list, nil
}

// mapBytes is what the feature maps of a batch may take while it is calibrated on:
// every thread has a batch of its own.
const mapBytes = 512 << 20

// batchOf is how many images are calibrated on at once: as many as asked for, fewer
// where a network is large. It depends on the network alone, so that verdicts do not
// depend on the machine.
func batchOf(n *supernet.Network, asked int) int {
	perImage := int64(4)
	for _, op := range n.Full().Ops {
		perImage += 4 * op.Out.Elements()
	}
	return int(max(min(int64(asked), mapBytes/perImage), min(int64(asked), 8)))
}

// fingerprint tells one set of images from another, wherever they lie: by all labels
// and a few pictures.
func fingerprint(sources ...dataset.Source) (string, error) {
	const pictures = 16
	h := sha256.New()
	number := func(values ...int) {
		for _, v := range values {
			_ = binary.Write(h, binary.LittleEndian, int64(v)) // a hash takes everything
		}
	}
	for _, s := range sources {
		number(s.Len(), s.Classes())
		for i := range s.Len() {
			number(s.Label(i))
		}
		some := dataset.Evenly(s, pictures)
		for i := range some.Len() {
			p, err := some.Image(i)
			if err != nil {
				return "", err
			}
			number(p.Width, p.Height, p.Channels)
			h.Write(p.Pix)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}
