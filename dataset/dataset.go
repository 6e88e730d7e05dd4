// Package dataset reads the data that networks are trained and judged on, and
// feeds it to them.
//
// A [Source] is a labelled set of pictures with random access. [Open] makes two of
// them, one to train on and one to test on, from the files that people have:
// MNIST and Fashion-MNIST, CIFAR-10 and CIFAR-100, Tiny-ImageNet, folders of images
// like ImageNet's, and a synthetic set for tests.
//
// A [Pipeline] says what happens to a picture on its way to a network:
// augmentation, scaling, cropping, normalisation. It is plain data, so that a recipe
// can hold it. A [Transform] is a pipeline made ready for one size of input.
//
// A [Loader] goes through a source in batches, decoding and augmenting ahead of
// the trainer on several goroutines. Which pictures a batch holds, and what chance
// does to them, depends on the seed, the epoch and the picture's index, never on
// timing or on the number of workers.
package dataset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Picture is an image of bytes: rows from the top, pixels from the left, channels
// interleaved. One channel is grey, three are red, green, blue.
type Picture struct {
	Width, Height, Channels int
	Pix                     []uint8 // Height·Width·Channels values; read-only, sources may share them
}

// Source is a labelled set of pictures. Its methods may be called by many
// goroutines at once.
type Source interface {
	Len() int
	Classes() int
	Label(i int) int // 0 to Classes()−1
	Image(i int) (Picture, error)
}

// Data is a set of pictures to train and test on, and what is known about it.
type Data struct {
	Name        string
	Train, Test Source
	Classes     int
	Channels    int      // of the pictures: 1 or 3
	Size        int      // height and width that networks for this set usually take
	ClassNames  []string // one a class

	// Mean and Std normalise the channels of training pictures whose values lie
	// between 0 and 1.
	Mean, Std []float32

	augment Pipeline // what is usual for this set, without normalisation
}

// Format is one way to keep data that [Open] can read.
type Format struct {
	Name string // what stands before the colon of a spec
	Help string // what stands after it, and what that is, for lists of formats
	Open func(rest string) (*Data, error)
}

// Formats lists what Open reads by itself, in the order of their names.
func Formats() []Format {
	return []Format{
		{"cifar10", "DIR  data_batch_1.bin … data_batch_5.bin, test_batch.bin", openCIFAR10},
		{"cifar100", "DIR  train.bin, test.bin", openCIFAR100},
		{"fashion-mnist", "DIR  train-images-idx3-ubyte[.gz] and its three companions", openFashionMNIST},
		{"folder", "DIR  train/CLASS/*.jpg, val/CLASS/*.jpg, as ImageNet is kept", openFolder},
		{"mnist", "DIR  train-images-idx3-ubyte[.gz] and its three companions", openMNIST},
		{"synthetic", "[classes=10,train=512,test=128,size=16,channels=1,noise=64,seed=1]  made up, for tests", openSynthetic},
		{"tiny-imagenet", "DIR  wnids.txt, train/, val/ as in the archive", openTinyImageNet},
	}
}

// Open reads the data that spec names: "FORMAT:DIR", or "synthetic" with options.
// Formats beyond those of [Formats] are passed by the program that has them; that
// is how one can carry data within itself without every user of this package
// linking it.
func Open(spec string, extra ...Format) (*Data, error) {
	name, rest, _ := strings.Cut(spec, ":")
	formats := slices.Concat(Formats(), extra)
	names := make([]string, len(formats))
	for i, f := range formats {
		if f.Name == name {
			if strings.HasPrefix(f.Help, "DIR ") {
				if rest == "" {
					return nil, fmt.Errorf("dataset: %s without the folder it is in; want %s:DIR", name, name)
				}
				if !isFolder(rest) {
					return nil, fmt.Errorf("dataset %s: there is no such folder", rest)
				}
			}
			return f.Open(rest)
		}
		names[i] = f.Name
	}
	slices.Sort(names)
	return nil, fmt.Errorf("dataset: %q names no format of data; there are %s", spec, strings.Join(names, ", "))
}

// options reads "key=value,key=value" into the integers that keys name.
func options(text string, keys map[string]*int) error {
	if text == "" {
		return nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		to, ok := keys[key]
		if !ok || seen[key] {
			names := make([]string, 0, len(keys))
			for k := range keys {
				names = append(names, k)
			}
			slices.Sort(names)
			return fmt.Errorf("option %q; each of %s may be set once", part, strings.Join(names, ", "))
		}
		seen[key] = true
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("option %q is no whole number", part)
		}
		*to = n
	}
	return nil
}
