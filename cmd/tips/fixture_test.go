package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tips/supernet/zoo"
	"tips/weights"
)

// ownProgram gives the path of this test's own program under the name by which it is
// tips; see TestMain.
func ownProgram(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "tips")
	if err := os.Symlink(self, name); err != nil {
		t.Skip("needs links: ", err)
	}
	return name
}

// outcome is how a command ended.
type outcome struct {
	status         int
	stdout, stderr string
}

// tipsIn runs tips in a folder, for a minute at most.
func tipsIn(t testing.TB, tips, dir string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tips, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("tips %q: %v", args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("tips %q took more than a minute", args)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

const fixtureRecipe = `version: 2
name: small
network: %s
data: synthetic:train=224,test=32,size=8
holdout: 32
epochs: 1
batch: 32
seed: %d
sgd: {rate: 0.05}
evaluate: {subnets: [full], calibration: 64}
`

// fixture makes a folder with what verbs take, whole and damaged:
//
//	run                 a training run that was searched, of weights with batch norm
//	same                another run of the same network: other weights
//	other               a run of another network, searched too
//	mixed               run with the weights of other; exchanged: with those of same
//	cut                 run with every file cut off in the middle
//	*.yaml, …           recipes, and single files cut off
//	widths.csv          data of a figure; noimage.csv: none
//	boot.png            a picture; noimage.png, pictures/: none; cut.png: half of one
//	colour.safetensors  weights of a network for colour images
func fixture(t testing.TB, tips string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	do := func(args ...string) {
		t.Helper()
		if o := tipsIn(t, tips, dir, args...); o.status != 0 {
			t.Fatalf("tips %q: status %d: %s", args, o.status, o.stderr)
		}
	}
	const network = "resnet_small:width=8,data=fashion-mnist,size=8,divisor=2"
	for _, r := range []struct {
		name, network string
		seed          int
	}{{"run", network, 1}, {"same", network, 2}, {"other", "mlp:depth=6,width=32,inputs=64,min=0.25,divisor=4", 1}} {
		write(r.name+".yaml", fmt.Appendf(nil, fixtureRecipe, r.network, r.seed))
		do("train", r.name+".yaml", "--threads", "1", "--out", r.name)
		do("search", r.name, "--threads", "1", "--evaluations", "8", "--strategy", "random")
	}
	do("profile", "run/network.json", "--subnets", "6", "--runs", "2", "--check", "4", "--time", "10ms", "--out", "run/latency.json")

	list, err := os.ReadDir(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		data := read("run/" + entry.Name())
		write("mixed/"+entry.Name(), data)
		write("exchanged/"+entry.Name(), data)
		write("cut/"+entry.Name(), data[:len(data)/2])
	}
	write("mixed/weights.safetensors", read("other/weights.safetensors"))
	write("exchanged/weights.safetensors", read("same/weights.safetensors"))
	for _, name := range []string{"weights.safetensors", "network.json", "net.frontier", "latency.json"} {
		data := read("run/" + name)
		write("cut-"+name, data[:len(data)/2])
	}
	write("cut.yaml", read("run.yaml")[:len("version: 2\nname: small\nnetwork")])
	write("price.csv", []byte("operation,in,out,cost,per\n*,,,1,r"))

	const drawn = "network,data,epochs,calibration,method,seed,family,ratio,subnetwork,macs,correct,images\nmlp,MNIST,1,64,tips,1,all,1,full,1000,5,32\n"
	write("widths.csv", []byte(drawn))
	write("cut-widths.csv", []byte(drawn[:len(drawn)-len("5,32\n")]))

	var boot bytes.Buffer
	picture := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range picture.Pix {
		picture.Set(i%8, i/8, color.Gray{uint8(37 * i)})
	}
	if err := png.Encode(&boot, picture); err != nil {
		t.Fatal(err)
	}
	write("boot.png", boot.Bytes())
	write("cut.png", boot.Bytes()[:boot.Len()/2])
	write("noimage.png", []byte("this is no image\n"))
	write("noimage.csv", []byte("this is no image\n"))
	write("empty.txt", nil)
	write("pictures/0000.jpg", []byte("this is no image\n"))
	for _, part := range []string{"train", "test"} {
		write("classes/"+part+"/boot/a.png", []byte("this is no image\n"))
		write("classes/"+part+"/shirt/b.png", []byte("this is no image\n"))
	}
	n, err := zoo.New(colourNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if err := weights.Random(n, 1).Save(filepath.Join(dir, "colour.safetensors")); err != nil {
		t.Fatal(err)
	}
	colour := read("colour.safetensors")
	write("cut-colour.safetensors", colour[:len(colour)/2])
	return dir
}

// colourNetwork is a small network for colour images.
const colourNetwork = "mobilenet_v2:width=0.35,data=cifar100"
