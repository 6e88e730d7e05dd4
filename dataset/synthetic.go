package dataset

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// openSynthetic makes up pictures that a small network learns to tell apart
// within seconds: every class has a pattern of large blots, which a picture shows
// moved by up to a pixel, brighter or darker, and under noise. All of it is whole
// numbers, so that every machine makes the same pictures.
func openSynthetic(text string) (*Data, error) {
	classes, train, test, size, channels, noise, seed := 10, 512, 128, 16, 1, 64, 1
	if err := options(text, map[string]*int{
		"classes": &classes, "train": &train, "test": &test, "size": &size, "channels": &channels, "noise": &noise, "seed": &seed,
	}); err != nil {
		return nil, fmt.Errorf("dataset synthetic: %w", err)
	}
	switch {
	case classes < 2 || classes > 256:
		return nil, fmt.Errorf("dataset synthetic: %d classes; 2 to 256 are possible", classes)
	case channels != 1 && channels != 3:
		return nil, fmt.Errorf("dataset synthetic: %d channels; 1 or 3 are possible", channels)
	case noise < 0 || noise > 255:
		return nil, fmt.Errorf("dataset synthetic: noise %d; 0 to 255 are possible", noise)
	case size < 4 || size > 512:
		return nil, fmt.Errorf("dataset synthetic: size %d; 4 to 512 are possible", size)
	}
	const most = 1 << 28
	for _, n := range []int{train, test} {
		if n < 1 || n > most/(size*size*channels) {
			return nil, fmt.Errorf("dataset synthetic: %d pictures of %d×%d×%d; 1 to %d are possible", n, size, size, channels, most/(size*size*channels))
		}
	}
	patterns := make([][]int, classes)
	for c := range patterns {
		patterns[c] = blots(rand.New(rand.NewPCG(uint64(seed), uint64(c))), size, channels)
	}
	d := &Data{Name: "synthetic", Classes: classes, Channels: channels, Size: size, augment: Pipeline{}}
	for range channels {
		d.Mean, d.Std = append(d.Mean, 0.5), append(d.Std, 0.25)
	}
	for c := range classes {
		d.ClassNames = append(d.ClassNames, strconv.Itoa(c))
	}
	d.Train = synthesise(patterns, train, size, channels, noise, rand.New(rand.NewPCG(uint64(seed), 1<<32)))
	d.Test = synthesise(patterns, test, size, channels, noise, rand.New(rand.NewPCG(uint64(seed), 2<<32)))
	return d, nil
}

// blots interpolates a grid of random values, from 0 to 255, to a picture with a
// margin of one pixel.
func blots(rng *rand.Rand, size, channels int) []int {
	const cells, unit = 4, 256
	wide := size + 2
	pattern := make([]int, wide*wide*channels)
	for c := range channels {
		var grid [cells + 1][cells + 1]int
		for y := range grid {
			for x := range grid[y] {
				grid[y][x] = rng.IntN(256)
			}
		}
		for y := range wide {
			for x := range wide {
				// Position in units of a cell, in 8 bits after the point.
				py, px := y*cells*unit/wide, x*cells*unit/wide
				y0, fy, x0, fx := py/unit, py%unit, px/unit, px%unit
				top := grid[y0][x0]*(unit-fx) + grid[y0][x0+1]*fx
				bottom := grid[y0+1][x0]*(unit-fx) + grid[y0+1][x0+1]*fx
				pattern[(y*wide+x)*channels+c] = (top*(unit-fy) + bottom*fy) / (unit * unit)
			}
		}
	}
	return pattern
}

func synthesise(patterns [][]int, n, size, channels, noise int, rng *rand.Rand) *Memory {
	classes := len(patterns)
	m := &Memory{width: size, height: size, channels: channels, classes: classes}
	m.pixels, m.labels = make([]uint8, n*size*size*channels), make([]uint8, n)
	wide := size + 2
	to := m.pixels
	for i := range n {
		m.labels[i] = uint8(i % classes)
		pattern := patterns[i%classes]
		left, top, gain := rng.IntN(3), rng.IntN(3), 192+rng.IntN(128) // of 256
		for y := range size {
			row := pattern[((y+top)*wide+left)*channels:][:size*channels]
			for x, v := range row {
				// The sum of two uniform numbers is a triangle.
				u := rng.Uint64()
				a, b := int((u>>32)*uint64(noise+1)>>32), int((u&(1<<32-1))*uint64(noise+1)>>32)
				v = 128 + (v-128)*gain/256 + a + b - noise
				to[x] = uint8(min(max(v, 0), 255))
			}
			to = to[size*channels:]
		}
	}
	return m
}
