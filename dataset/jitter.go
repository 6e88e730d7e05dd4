package dataset

import "math/rand/v2"

// jitter changes the colours of an input whose values lie between 0 and 1, as
// torchvision's ColorJitter changes a tensor.
func (t *Transform) jitter(to []float32, rng *rand.Rand) {
	factor := func(strength float64) float32 {
		low := max(0, 1-strength)
		return float32(low + (1+strength-low)*rng.Float64())
	}
	// All is drawn before anything is done, so that one change does not alter what
	// chance does to the others.
	order := [4]int{0, 1, 2, 3}
	rng.Shuffle(4, func(i, j int) { order[i], order[j] = order[j], order[i] })
	brightness, contrast, saturation := factor(t.p.Brightness), factor(t.p.Contrast), factor(t.p.Saturation)
	hue := float32(t.p.Hue * (2*rng.Float64() - 1))
	for _, change := range order {
		switch {
		case change == 0 && t.p.Brightness > 0:
			for i, v := range to {
				to[i] = unit(v * brightness)
			}
		case change == 1 && t.p.Contrast > 0:
			grey := (1 - contrast) * t.meanGrey(to)
			for i, v := range to {
				to[i] = unit(v*contrast + grey)
			}
		case change == 2 && t.p.Saturation > 0 && t.channels == 3:
			for i := 0; i+2 < len(to); i += 3 {
				p := to[i : i+3 : i+3]
				grey := (1 - saturation) * luma(p[0], p[1], p[2])
				p[0], p[1], p[2] = unit(p[0]*saturation+grey), unit(p[1]*saturation+grey), unit(p[2]*saturation+grey)
			}
		case change == 3 && t.p.Hue > 0 && t.channels == 3:
			for i := 0; i+2 < len(to); i += 3 {
				p := to[i : i+3 : i+3]
				p[0], p[1], p[2] = turnHue(p[0], p[1], p[2], hue)
			}
		}
	}
}

func (t *Transform) meanGrey(values []float32) float32 {
	var sum float64
	if t.channels == 1 {
		for _, v := range values {
			sum += float64(v)
		}
		return float32(sum / float64(len(values)))
	}
	for i := 0; i+2 < len(values); i += 3 {
		sum += float64(luma(values[i], values[i+1], values[i+2]))
	}
	return float32(sum / float64(len(values)/3))
}

func luma(r, g, b float32) float32 { return 0.2989*r + 0.587*g + 0.114*b }

func unit(v float32) float32 { return min(max(v, 0), 1) }

// turnHue turns a colour round the circle of hues by a part of it: to hue,
// saturation and value, and back.
func turnHue(r, g, b, turn float32) (float32, float32, float32) {
	value, least := max(r, g, b), min(r, g, b)
	spread := value - least
	if spread == 0 {
		return r, g, b
	}
	var hue float32 // in sixths of the circle
	switch value {
	case r:
		hue = (g - b) / spread
	case g:
		hue = 2 + (b-r)/spread
	default:
		hue = 4 + (r-g)/spread
	}
	hue += 6 * turn // −1 to 5, and half a circle more or less
	if hue < 0 {
		hue += 6
	} else if hue >= 6 {
		hue -= 6
	}
	return value - spread*off(hue+5), value - spread*off(hue+3), value - spread*off(hue+1)
}

// off is how much of its spread a channel lacks at a place on the circle, counted
// in sixths from where it begins to fall: down, nothing for two, up again.
func off(k float32) float32 {
	if k >= 6 {
		k -= 6
	}
	return unit(min(k, 4-k))
}
