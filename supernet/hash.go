package supernet

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is a SHA-256 by which files name the network or the weights they belong
// to.
type Hash [sha256.Size]byte

// String is the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is enough of the hash for a person to tell two apart.
func (h Hash) Short() string { return hex.EncodeToString(h[:6]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Hash is that of the network's description as Write writes it: its name, its
// input, what may shrink, and every operation.
func (n *Network) Hash() Hash {
	h := sha256.New()
	_ = n.Write(h) // a hash takes everything
	return Hash(h.Sum(nil))
}
