//go:build ignore

// Generate cuts a part of Fashion-MNIST out of the whole: the first 700 training
// pictures and the first 150 test pictures of each class, in their order.
//
//	go run generate.go DIR
package main

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"log"
	"os"

	"tips/dataset"
	"tips/internal/atomicfile"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run generate.go DIR")
	}
	data, err := dataset.Open("fashion-mnist:" + os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	write("train", data.Train, 700)
	write("t10k", data.Test, 150)
}

func write(split string, s dataset.Source, each int) {
	var pixels, labels []byte
	count := make([]int, s.Classes())
	for i := range s.Len() {
		class := s.Label(i)
		if count[class] == each {
			continue
		}
		count[class]++
		picture, err := s.Image(i)
		if err != nil {
			log.Fatal(err)
		}
		pixels, labels = append(pixels, picture.Pix...), append(labels, uint8(class))
	}
	n := uint32(len(labels))
	compress(split+"-images-idx3-ubyte.gz", []uint32{0x803, n, 28, 28}, pixels)
	compress(split+"-labels-idx1-ubyte.gz", []uint32{0x801, n}, labels)
}

func compress(name string, header []uint32, data []byte) {
	err := atomicfile.Write(name, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := binary.Write(z, binary.BigEndian, header); err != nil {
			return err
		}
		if _, err := z.Write(data); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		log.Fatal(err)
	}
}
