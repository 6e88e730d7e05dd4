// Package fashion carries a small part of Fashion-MNIST, for a first try without
// any files: 7000 pictures of clothes to train on and 1500 to test on, as many of
// each of the ten classes. It is a package of its own so that only programs that
// want them grow by 4 MB.
//
// Fashion-MNIST is by Zalando SE, https://github.com/zalandoresearch/fashion-mnist,
// under the MIT licence; see the file LICENSE.
//
// The four files are in MNIST's format. They were cut from the whole by
//
//	go run generate.go DIR
//
// where DIR holds Fashion-MNIST; /usr/share/datasets/fashion-mnist is where Debian's
// package dataset-fashion-mnist puts it.
package fashion

import (
	_ "embed" // the pictures
	"fmt"

	"tips/dataset"
)

//go:embed train-images-idx3-ubyte.gz
var trainImages string

//go:embed train-labels-idx1-ubyte.gz
var trainLabels string

//go:embed t10k-images-idx3-ubyte.gz
var testImages string

//go:embed t10k-labels-idx1-ubyte.gz
var testLabels string

// Format is "embedded", for dataset.Open.
func Format() dataset.Format {
	return dataset.Format{
		Name: "embedded",
		Help: "  a small part of Fashion-MNIST that the program carries within itself",
		Open: func(rest string) (*dataset.Data, error) {
			if rest != "" {
				return nil, fmt.Errorf("dataset embedded: %q after the name, where nothing is expected", rest)
			}
			return Open()
		},
	}
}

// Open returns the pictures.
func Open() (*dataset.Data, error) {
	return dataset.FashionMNIST(trainImages, trainLabels, testImages, testLabels)
}
