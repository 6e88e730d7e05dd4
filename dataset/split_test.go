package dataset

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// labelled is a source of 1×1 pictures with the given labels, whose grey is their index.
func labelled(t interface{ Fatal(...any) }, classes int, labels []byte) *Memory {
	pixels := make([]byte, len(labels))
	for i := range pixels {
		pixels[i] = byte(i)
	}
	m, err := NewMemory(1, 1, 1, classes, pixels, labels)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHoldout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.IntRange(1, 12).Draw(t, "classes")
		labels := rapid.SliceOfN(rapid.ByteRange(0, byte(classes-1)), 1, 200).Draw(t, "labels")
		s := labelled(t, classes, labels)
		n := rapid.IntRange(0, len(labels)).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		rest, held := Holdout(s, n, seed)
		if held.Len() != n || rest.Len() != len(labels)-n || held.Classes() != classes {
			t.Fatalf("%d held out and %d left of %d", held.Len(), rest.Len(), len(labels))
		}
		seen := make([]int, len(labels))
		inHeld, inAll := make([]float64, classes), make([]float64, classes)
		for _, part := range []Source{rest, held} {
			last := -1
			for i := range part.Len() {
				p, err := part.Image(i)
				if err != nil {
					t.Fatal(err)
				}
				at := int(p.Pix[0])
				if at <= last || part.Label(i) != int(labels[at]) {
					t.Fatalf("picture %d with label %d after picture %d", at, part.Label(i), last)
				}
				last = at
				seen[at]++
				inAll[part.Label(i)]++
				if part == held {
					inHeld[part.Label(i)]++
				}
			}
		}
		for i, times := range seen {
			if times != 1 {
				t.Fatalf("picture %d is in %d parts", i, times)
			}
		}
		for c := range classes {
			share := inAll[c] * float64(n) / float64(len(labels))
			if d := inHeld[c] - share; d <= -1 || d >= 1 {
				t.Fatalf("class %d gives %v; its share is %v", c, inHeld[c], share)
			}
		}
		_, again := Holdout(s, n, seed)
		for i := range n {
			a, _ := held.Image(i)
			b, _ := again.Image(i)
			if !bytes.Equal(a.Pix, b.Pix) {
				t.Fatal("another split by the same seed")
			}
		}
	})
}

// TestHoldoutSeed: chance has a say in which pictures are held out.
func TestHoldoutSeed(t *testing.T) {
	labels := make([]byte, 100)
	for i := range labels {
		labels[i] = byte(rand.IntN(2))
	}
	s := labelled(t, 2, labels)
	_, a := Holdout(s, 30, 1)
	_, b := Holdout(s, 30, 2)
	same := 0
	for i := range 30 {
		p, _ := a.Image(i)
		q, _ := b.Image(i)
		if p.Pix[0] == q.Pix[0] {
			same++
		}
	}
	if same > 20 {
		t.Errorf("%d of 30 pictures stand at the same place with another seed", same)
	}
}

func TestMisuse(t *testing.T) {
	s := labelled(t, 2, []byte{0, 1})
	for what, f := range map[string]func(){
		"holdout": func() { Holdout(s, 3, 1) },
		"subset":  func() { Subset(s, []int{2}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			f()
		}()
	}
	for what, f := range map[string]func() (*Memory, error){
		"channels": func() (*Memory, error) { return NewMemory(1, 1, 2, 2, make([]byte, 2), make([]byte, 1)) },
		"pixels":   func() (*Memory, error) { return NewMemory(2, 2, 1, 2, make([]byte, 7), make([]byte, 2)) },
		"none":     func() (*Memory, error) { return NewMemory(2, 2, 1, 2, nil, nil) },
		"classes":  func() (*Memory, error) { return NewMemory(1, 1, 1, 300, make([]byte, 1), make([]byte, 1)) },
		"label":    func() (*Memory, error) { return NewMemory(1, 1, 1, 2, make([]byte, 1), []byte{2}) },
		"size":     func() (*Memory, error) { return NewMemory(1<<31, 1<<31, 1, 2, nil, []byte{1}) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
