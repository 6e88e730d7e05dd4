package frontier

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"
)

// FuzzDecode reads bodies with a checksum that fits. Whatever is taken must be
// written again to the bit: one frontier, one file.
func FuzzDecode(f *testing.F) {
	n := newNetwork(f, "mobilenet_v2:data=cifar10,size=8,width=0.1,classes=2")
	for seed := range uint64(3) {
		data, err := random(f, n, 1+int(seed), seed).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:len(data)-sha256.Size])
	}
	f.Add([]byte(magic + "\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		data := append(bytes.Clone(body), sum[:]...)
		got, err := Decode(data, n)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrMismatch) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		again, err := got.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, again) {
			t.Fatal("what was read is written otherwise")
		}
	})
}
