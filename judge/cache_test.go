package judge

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

const cacheNetwork = "resnet_small:width=8,data=fashion-mnist,size=8,divisor=4"

func network(t testing.TB, model string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(model)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// someRecord makes up a verdict, with or without statistics.
func someRecord(t testing.TB, n *supernet.Network, s supernet.Subnet, rng *rand.Rand) record {
	t.Helper()
	images := 1 + rng.IntN(100)
	r := record{images: images, correct: rng.IntN(images + 1), loss: rng.ExpFloat64()}
	if rng.IntN(3) == 0 {
		return r
	}
	list, err := norms(n, s)
	if err != nil {
		t.Fatal(err)
	}
	r.statistics = &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
	for _, norm := range list {
		for range norm.channels {
			r.statistics.Mean[norm.op] = append(r.statistics.Mean[norm.op], float32(rng.NormFloat64()))
			r.statistics.Variance[norm.op] = append(r.statistics.Variance[norm.op], rng.Float32())
		}
	}
	return r
}

// entry is a verdict that was written, and where the file ended afterwards.
type entry struct {
	subnet supernet.Subnet
	record record // as it went in
	end    int64
}

// fill writes verdicts on different subnetworks.
func fill(t testing.TB, c *cache, count int, rng *rand.Rand) []entry {
	t.Helper()
	var list []entry
	for tries := 0; len(list) < count && tries < 100*count; tries++ {
		s := randnet.Subnet(c.network, rng)
		if _, known := c.found[s]; known {
			continue
		}
		r := someRecord(t, c.network, s, rng)
		if _, err := c.add(s, r); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{s, r, c.end})
	}
	return list
}

// holds tells whether a cache has just these verdicts, to the last bit.
func holds(t testing.TB, c *cache, list []entry) bool {
	t.Helper()
	if len(c.found) != len(list) {
		return false
	}
	for _, e := range list {
		r, known := c.found[e.subnet]
		if !known || r.correct != e.record.correct || r.images != e.record.images || r.loss != e.record.loss || r.stored != (e.record.statistics != nil) {
			return false
		}
		if !r.stored {
			continue
		}
		got, err := c.statistics(e.subnet, r)
		if err != nil || !reflect.DeepEqual(got, e.record.statistics) {
			return false
		}
	}
	return true
}

func openTestCache(t testing.TB, name string, n *supernet.Network, identity string) *cache {
	t.Helper()
	c, err := openCache(name, n, identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.file.Close() })
	return c
}

// TestCutOff: cut off at any byte, or with any byte changed, a cache holds the
// verdicts that are whole and come before, and no others; and it goes on from there.
func TestCutOff(t *testing.T) {
	n := network(t, cacheNetwork)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	c := openTestCache(t, whole, n, "me")
	list := fill(t, c, 8, rand.New(rand.NewPCG(1, 1)))
	c.Close()
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != list[len(list)-1].end {
		t.Fatalf("%d bytes; want %d", len(data), list[len(list)-1].end)
	}
	before := func(at int64) []entry {
		kept := 0
		for kept < len(list) && list[kept].end <= at {
			kept++
		}
		return list[:kept]
	}
	part := filepath.Join(dir, "part")
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(0, len(data)).Draw(rt, "at")
		broken := append([]byte(nil), data[:at]...)
		if rapid.Bool().Draw(rt, "changed") && at > headerBytes {
			// One byte, somewhere after the header.
			at = rapid.IntRange(headerBytes, at-1).Draw(rt, "changed at")
			broken[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "by"))
		}
		if err := os.WriteFile(part, broken, 0o644); err != nil {
			rt.Fatal(err)
		}
		c := openTestCache(t, part, n, "me")
		want := before(int64(at))
		if !holds(t, c, want) {
			rt.Fatalf("%d verdicts; want the first %d", len(c.found), len(want))
		}
		end := int64(headerBytes)
		if len(want) > 0 {
			end = want[len(want)-1].end
		}
		if len(broken) > headerBytes && c.dropped != int64(len(broken))-end {
			rt.Fatalf("%d bytes dropped; want %d", c.dropped, int64(len(broken))-end)
		}
		more := fill(t, c, 1, rand.New(rand.NewPCG(2, 2)))
		c.Close()
		again := openTestCache(t, part, n, "me")
		if want = append(want[:len(want):len(want)], more...); !holds(t, again, want) || again.dropped != 0 {
			rt.Fatalf("%d verdicts, %d bytes dropped after one more; want %d", len(again.found), again.dropped, len(want))
		}
		again.file.Close()
	})
}

// TestStrangers: judges that differ in anything share a file and nothing else.
func TestStrangers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cache")
	n, other := network(t, cacheNetwork), network(t, "resnet_small:width=16,data=fashion-mnist,size=8")
	rng := rand.New(rand.NewPCG(3, 3))
	a, b, c := openTestCache(t, name, n, "a"), openTestCache(t, name, n, "b"), openTestCache(t, name, other, "c")
	var as, bs, cs []entry
	for range 4 { // in turns, each with the file open
		as, bs, cs = append(as, fill(t, a, 1, rng)...), append(bs, fill(t, b, 2, rng)...), append(cs, fill(t, c, 1, rng)...)
	}
	twin := openTestCache(t, name, n, "a")
	if !holds(t, a, as) || !holds(t, b, bs) || !holds(t, c, cs) || !holds(t, twin, as) {
		t.Error("judges with one file mix up their verdicts")
	}
	// What one writes the other has, after it has written itself.
	as = append(as, fill(t, a, 1, rng)...)
	as = append(as, fill(t, twin, 1, rng)...)
	if !holds(t, twin, as) {
		t.Error("a judge does not see what its twin has written")
	}
	// A file that was removed is made again.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	as = fill(t, a, 2, rng)
	if reopened := openTestCache(t, name, n, "a"); !holds(t, reopened, as) {
		t.Errorf("%d verdicts in a file made anew; want 2", len(reopened.found))
	}
}

// TestFull: a file that is full makes room for the latest verdicts of its judge.
func TestFull(t *testing.T) {
	n := network(t, cacheNetwork)
	name := filepath.Join(t.TempDir(), "cache")
	rng := rand.New(rand.NewPCG(4, 4))
	other := openTestCache(t, name, n, "other")
	fill(t, other, 10, rng)
	c := openTestCache(t, name, n, "me")
	c.most = 32 << 10
	list := fill(t, c, 60, rng)
	info, err := os.Stat(name)
	if err != nil || info.Size() > c.most || info.Size() < c.most/4 {
		t.Errorf("%d bytes (%v); want at most %d, and not nothing", info.Size(), err, c.most)
	}
	kept := len(c.found)
	if kept < 5 || kept >= 60 || !holds(t, c, list[len(list)-kept:]) {
		t.Errorf("%d of 60 verdicts are kept; want some, the latest", kept)
	}
	if again := openTestCache(t, name, n, "me"); !maps.Equal(again.found, c.found) {
		t.Error("it is read as it was not written")
	}
	// The other, whose file this was, goes on with the new one.
	more := fill(t, other, 1, rng)
	if again := openTestCache(t, name, n, "other"); len(again.found) != 1 || !holds(t, again, more) {
		t.Errorf("the other judge has %d verdicts; want the one since", len(again.found))
	}
}

// FuzzCache: whatever a file holds, it is refused or read, and what is left of it is
// read again as it was.
func FuzzCache(f *testing.F) {
	n := network(f, cacheNetwork)
	seed := filepath.Join(f.TempDir(), "seed")
	c := openTestCache(f, seed, n, "me")
	fill(f, c, 3, rand.New(rand.NewPCG(5, 5)))
	c.Close()
	data, err := os.ReadFile(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte{})
	// Bodies whose checksum is right and whose content is not.
	body := append([]byte(nil), c.key[:]...)
	for _, rest := range [][]byte{{}, {0}, {1, 0, 5, 9}, {1, 0, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff, 0x0f}} {
		f.Add(append(append([]byte(magic), cacheVersion), frame(append(body[:len(body):len(body)], rest...))...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "cache")
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := openCache(name, n, "me")
		if err != nil {
			return
		}
		defer c.file.Close()
		for s, r := range c.found {
			if !r.stored {
				continue
			}
			if _, err := c.statistics(s, r); err != nil {
				t.Fatal(err)
			}
		}
		again, err := openCache(name, n, "me")
		if err != nil || !maps.Equal(again.found, c.found) || again.dropped != 0 {
			t.Fatalf("%v; %d verdicts, then %d, and %d bytes dropped", err, len(c.found), len(again.found), again.dropped)
		}
		again.file.Close()
	})
}
