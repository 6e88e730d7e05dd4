package dataset

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// atHand opens a whole set, or skips the test where it is missing. It is looked for
// in the folder that the environment variable TIPS_DATA names, or else in shared/data
// beside the repository; below that, in a folder called like its format.
func atHand(t *testing.T, format string) *Data {
	t.Helper()
	folder := os.Getenv("TIPS_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "shared", "data")
	}
	dir := filepath.Join(folder, format)
	if !isFolder(dir) {
		t.Skipf("%s is not at hand: %s is missing; TIPS_DATA may name the folder that it is in", format, dir)
	}
	if testing.Short() {
		t.Skip("reads a whole set")
	}
	d, err := Open(format + ":" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestReal: the sets that everybody uses have as many pictures as they should, of
// each class, and the mean and standard deviation that this package says.
func TestReal(t *testing.T) {
	for _, test := range []struct {
		format                      string
		train, test, size, channels int
		balanced                    bool
		first                       []int // labels of the first training pictures
	}{
		{"mnist", 60000, 10000, 28, 1, false, []int{5, 0, 4, 1, 9, 2, 1, 3}},
		{"fashion-mnist", 60000, 10000, 28, 1, true, []int{9, 0, 0, 3, 0, 2, 7, 2}},
		{"cifar10", 50000, 10000, 32, 3, true, []int{6, 9, 9, 4, 1, 1, 2, 7}},
		{"cifar100", 50000, 10000, 32, 3, true, []int{19, 29, 0, 11, 1, 86, 90, 28}},
	} {
		t.Run(test.format, func(t *testing.T) {
			d := atHand(t, test.format)
			if d.Train.Len() != test.train || d.Test.Len() != test.test || d.Size != test.size || d.Channels != test.channels {
				t.Errorf("%d training and %d test pictures, size %d, %d channels", d.Train.Len(), d.Test.Len(), d.Size, d.Channels)
			}
			for i, want := range test.first {
				if got := d.Train.Label(i); got != want {
					t.Errorf("picture %d is a %s; want %s", i, d.ClassNames[got], d.ClassNames[want])
				}
			}
			for _, s := range []Source{d.Train, d.Test} {
				count := make([]int, d.Classes)
				for i := range s.Len() {
					count[s.Label(i)]++
				}
				for c, n := range count {
					if test.balanced && n != s.Len()/d.Classes || n == 0 {
						t.Errorf("%d pictures of class %s", n, d.ClassNames[c])
					}
				}
			}
			var sum, squares [3]float64
			var n float64
			for i := range d.Train.Len() {
				p, err := d.Train.Image(i)
				if err != nil {
					t.Fatal(err)
				}
				for k := 0; k < len(p.Pix); k += p.Channels {
					for c := range p.Channels {
						v := float64(p.Pix[k+c]) / 255
						sum[c] += v
						squares[c] += v * v
					}
				}
				n += float64(p.Width * p.Height)
			}
			for c := range d.Channels {
				mean := sum[c] / n
				std := math.Sqrt(squares[c]/n - mean*mean)
				if math.Abs(mean-float64(d.Mean[c])) > 1e-4 || math.Abs(std-float64(d.Std[c])) > 1e-4 {
					t.Errorf("channel %d has mean %.4f and standard deviation %.4f; the package says %v and %v", c, mean, std, d.Mean[c], d.Std[c])
				}
			}
		})
	}
}
