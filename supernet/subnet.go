package supernet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Subnet names one subnetwork of a network: a width for every group, and the
// blocks left out. It is a small immutable value that can be compared with ==
// and used as a map key; two Subnets of one network are equal exactly if they
// compute the same thing. The zero value is the whole network.
//
// A Subnet has two forms, and a Network turns either back into a Subnet. The
// text form, String, names channel counts in the order of Network.Groups, runs
// of equal ones as count×repeats, then the numbers of the blocks left out,
// counted from 1: "w32.16.96x2.24d3.5"; "d3" alone keeps all widths. The whole
// network is "full". The binary form is a byte or two for each group and, where
// blocks are left out, a bit for each.
type Subnet struct {
	// code is the binary form: uvarint number of groups, uvarint width of each,
	// then a bit set of the blocks left out, least significant bit first, without
	// trailing zero bytes. Empty for the whole network.
	code string
}

// The words that Network.ParseSubnet takes instead of a text form.
const (
	fullWord     = "full"
	smallestWord = "smallest"
)

// Subnet makes the subnetwork with the given width of every group, in the order
// of Groups, without the given blocks. Leaving out a block leaves out those
// inside it; widths that only blocks left out would use are ignored.
func (n *Network) Subnet(widths []int, without []int) (Subnet, error) {
	s, err := n.subnet(widths, without)
	if err != nil {
		return Subnet{}, fmt.Errorf("supernet: %w", err)
	}
	return s, nil
}

func (n *Network) subnet(widths []int, without []int) (Subnet, error) {
	if len(widths) != len(n.groups) {
		return Subnet{}, fmt.Errorf("%d widths for %s, which has %d width groups", len(widths), n.name, len(n.groups))
	}
	dropped := make([]bool, len(n.blocks))
	for _, b := range without {
		if b < 0 || b >= len(n.blocks) {
			return Subnet{}, fmt.Errorf("block %d of %s, which has %d blocks", b+1, n.name, len(n.blocks))
		}
		dropped[b] = true
	}
	for b, block := range n.blocks { // outer blocks come first
		if block.Parent >= 0 && dropped[block.Parent] {
			dropped[b] = true
		}
	}
	for i, w := range widths {
		if g := n.groups[i]; !g.Has(w) {
			return Subnet{}, fmt.Errorf("width %d of group %d (%s); want %s", w, i+1, g.Name, g.accepts())
		}
	}

	// Canonical form, so that equal networks are equal values.
	canonical := slices.Clone(widths)
	whole := !slices.Contains(dropped, true)
	for i, g := range n.groups {
		if !slices.ContainsFunc(g.Ops, func(op int) bool { return n.runs(op, dropped) }) {
			canonical[i] = g.Channels
		}
		whole = whole && canonical[i] == g.Channels
	}
	if whole {
		return Subnet{}, nil
	}
	return encode(canonical, dropped), nil
}

// accepts lists the widths of a group for an error message.
func (g Group) accepts() string {
	multiples := (g.Channels - 1) / g.Step * g.Step // the largest below full width
	if g.Min > multiples {
		return strconv.Itoa(g.Channels)
	}
	return fmt.Sprintf("a multiple of %d from %d to %d, or %d", g.Step, g.Min, multiples, g.Channels)
}

// runs tells whether operation i is computed where the given blocks are left out.
func (n *Network) runs(i int, dropped []bool) bool {
	b := n.blockOf[i]
	return b < 0 || !dropped[b]
}

func encode(widths []int, dropped []bool) Subnet {
	code := binary.AppendUvarint(nil, uint64(len(widths)))
	for _, w := range widths {
		code = binary.AppendUvarint(code, uint64(w))
	}
	end := len(code)
	for b, d := range dropped {
		if b%8 == 0 {
			code = append(code, 0)
		}
		if d {
			code[len(code)-1] |= 1 << (b % 8)
			end = len(code)
		}
	}
	return Subnet{string(code[:end])}
}

// decode splits the code of s, which need not be valid. Trailing bytes that hold
// no block are refused, so that one subnetwork has one code.
func (s Subnet) decode() (widths, without []int, err error) {
	code := []byte(s.code)
	next := func() (int, error) {
		v, size := binary.Uvarint(code)
		if size <= 0 || v > maxChannels || size != len(binary.AppendUvarint(nil, v)) {
			return 0, fmt.Errorf("subnet code is damaged")
		}
		code = code[size:]
		return int(v), nil
	}
	count, err := next()
	if err != nil {
		return nil, nil, err
	}
	if count > len(code) {
		return nil, nil, fmt.Errorf("subnet code names %d groups in %d bytes", count, len(code))
	}
	widths = make([]int, count)
	for i := range widths {
		if widths[i], err = next(); err != nil {
			return nil, nil, err
		}
	}
	for i, bits := range code {
		for b := range 8 {
			if bits&(1<<b) != 0 {
				without = append(without, 8*i+b)
			}
		}
	}
	if len(code) > 0 && code[len(code)-1] == 0 {
		return nil, nil, fmt.Errorf("subnet code has trailing zeros")
	}
	return widths, without, nil
}

// choices gives the widths and left-out blocks of s, checked against n.
func (n *Network) choices(s Subnet) (widths []int, dropped []bool, err error) {
	dropped = make([]bool, len(n.blocks))
	if s.code == "" {
		widths = make([]int, len(n.groups))
		for i, g := range n.groups {
			widths[i] = g.Channels
		}
		return widths, dropped, nil
	}
	widths, without, err := s.decode()
	if err != nil {
		return nil, nil, err
	}
	again, err := n.subnet(widths, without)
	if err != nil {
		return nil, nil, fmt.Errorf("subnet %s: %w", s, err)
	}
	if again != s {
		return nil, nil, fmt.Errorf("subnet %s is written %s for %s", s, again, n.name)
	}
	for _, b := range without {
		dropped[b] = true
	}
	return widths, dropped, nil
}

// Check tells why s is no subnetwork of n; nil if it is one.
func (n *Network) Check(s Subnet) error {
	if _, _, err := n.choices(s); err != nil {
		return fmt.Errorf("supernet: %w", err)
	}
	return nil
}

// Widths are the widths that s gives to the groups of n, and the blocks that it
// leaves out.
func (n *Network) Widths(s Subnet) (widths, without []int, err error) {
	widths, dropped, err := n.choices(s)
	if err != nil {
		return nil, nil, fmt.Errorf("supernet: %w", err)
	}
	for b, d := range dropped {
		if d {
			without = append(without, b)
		}
	}
	return widths, without, nil
}

// Uniform is the subnetwork with every group at the given ratio of its full
// width, rounded and no smaller than its minimum, at full depth.
func (n *Network) Uniform(ratio float64) (Subnet, error) {
	if !(ratio > 0 && ratio <= 1) {
		return Subnet{}, fmt.Errorf("supernet: width ratio %v; want above 0 and at most 1", ratio)
	}
	widths := make([]int, len(n.groups))
	for i, g := range n.groups {
		widths[i] = g.Round(ratio)
	}
	return n.Subnet(widths, nil)
}

// Smallest is the subnetwork with every group at its smallest width, at full
// depth.
func (n *Network) Smallest() Subnet {
	widths := make([]int, len(n.groups))
	for i, g := range n.groups {
		widths[i] = g.Min
	}
	s, err := n.subnet(widths, nil)
	if err != nil {
		panic("supernet: the smallest subnetwork of " + n.name + " is invalid: " + err.Error())
	}
	return s
}

// IsFull tells whether s is the whole network.
func (s Subnet) IsFull() bool { return s.code == "" }

// String is the text form of s.
func (s Subnet) String() string {
	if s.code == "" {
		return fullWord
	}
	widths, without, err := s.decode()
	if err != nil {
		return fmt.Sprintf("invalid(%x)", s.code)
	}
	var b strings.Builder
	for i := 0; i < len(widths); {
		run := i + 1
		for run < len(widths) && widths[run] == widths[i] {
			run++
		}
		b.WriteByte(".w"[btoi(i == 0)])
		b.WriteString(strconv.Itoa(widths[i]))
		if run-i > 1 {
			b.WriteByte('x')
			b.WriteString(strconv.Itoa(run - i))
		}
		i = run
	}
	for i, block := range without {
		b.WriteByte(".d"[btoi(i == 0)])
		b.WriteString(strconv.Itoa(block + 1))
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// MarshalText is String, so that a Subnet stands in JSON as its text form.
// Reading one back takes its network: see Network.ParseSubnet.
func (s Subnet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AppendBinary appends the binary form of s.
func (s Subnet) AppendBinary(b []byte) ([]byte, error) {
	if s.code == "" {
		return append(b, 0), nil // no groups, no blocks: the whole network
	}
	return append(b, s.code...), nil
}

// MarshalBinary is the binary form of s.
func (s Subnet) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// DecodeSubnet reads the binary form of a subnetwork of n.
func (n *Network) DecodeSubnet(b []byte) (Subnet, error) {
	if len(b) == 1 && b[0] == 0 {
		return Subnet{}, nil
	}
	s := Subnet{string(b)}
	if s.code == "" {
		return Subnet{}, fmt.Errorf("supernet: empty subnet code")
	}
	if err := n.Check(s); err != nil {
		return Subnet{}, err
	}
	return s, nil
}

// ParseSubnet reads the text form of a subnetwork of n. It takes the words
// "full" and "smallest" too.
func (n *Network) ParseSubnet(text string) (Subnet, error) {
	switch text {
	case fullWord:
		return Subnet{}, nil
	case smallestWord:
		return n.Smallest(), nil
	}
	widths, without, err := n.parseChoices(text)
	if err == nil {
		var s Subnet
		if s, err = n.subnet(widths, without); err == nil {
			return s, nil
		}
	}
	return Subnet{}, fmt.Errorf("supernet: subnet %q: %w", shorten(text), err)
}

func (n *Network) parseChoices(text string) (widths, without []int, err error) {
	bad := func(part string) error {
		return fmt.Errorf("%q; want %s, %s, or widths and left-out blocks such as w32.16.96x2d3", shorten(part), fullWord, smallestWord)
	}
	widthPart, blockPart, hasBlocks := strings.Cut(text, "d")
	if widthPart == "" && !hasBlocks {
		return nil, nil, bad(text)
	}
	if widthPart == "" { // full width, without some blocks
		for _, g := range n.groups {
			widths = append(widths, g.Channels)
		}
	} else {
		list, ok := strings.CutPrefix(widthPart, "w")
		if !ok {
			return nil, nil, bad(text)
		}
		for part := range strings.SplitSeq(list, ".") {
			number, repeat, isRun := strings.Cut(part, "x")
			w, ok := smallInt(number)
			times := 1
			if isRun && ok {
				times, ok = smallInt(repeat)
			}
			if !ok {
				return nil, nil, bad(part)
			}
			if times > len(n.groups)-len(widths) {
				return nil, nil, fmt.Errorf("more widths than the %d width groups of %s", len(n.groups), n.name)
			}
			for range times {
				widths = append(widths, w)
			}
		}
	}
	if hasBlocks {
		for part := range strings.SplitSeq(blockPart, ".") {
			b, ok := smallInt(part)
			if !ok {
				return nil, nil, bad(part)
			}
			without = append(without, b-1)
		}
	}
	return widths, without, nil
}

// smallInt reads a positive decimal number as strconv.Itoa writes it.
func smallInt(s string) (int, bool) {
	v, err := strconv.Atoi(s)
	return v, err == nil && v > 0 && v <= maxChannels && strconv.Itoa(v) == s
}

// shorten keeps what a user typed readable in an error message.
func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "…"
	}
	return s
}
