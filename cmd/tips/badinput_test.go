package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// badInput is what verbs must reject.
type badInput string

const (
	missing      badInput = "a missing file"
	truncated    badInput = "a truncated file"
	otherNetwork badInput = "weights of another network"
	otherWeights badInput = "a frontier of other weights"
	zero         badInput = "a budget of zero" // and other amounts of which nothing comes
	noImage      badInput = "an image that is no image"
)

// none is a kind of input that a verb does not take, with the reason.
const none = "none: "

// badCommands are command lines by verb and kind, in the folder of fixture: all kinds
// of all verbs, or the reason why a verb takes no such thing.
var badCommands = map[string]map[badInput][]string{
	"models": {
		missing: {none + "it reads no files"}, truncated: {none + "it reads no files"}, otherNetwork: {none + "no weights"},
		otherWeights: {none + "no frontier"}, zero: {"--data nothing"}, noImage: {none + "no images"},
	},
	"describe": {
		missing: {"nothing.json", "./nowhere/network.json", "mlp --write nowhere/x.json"}, truncated: {"cut-network.json", "cut/network.json"},
		otherNetwork: {"run/weights.safetensors", "./run/net.frontier"}, // no description at all
		otherWeights: {none + "no frontier"}, zero: {"mlp --size 0"}, noImage: {"./noimage.png"},
	},
	"analyze": {
		missing: {"nothing.json", "mlp --svg nowhere/x.svg"}, truncated: {"cut-network.json"}, otherNetwork: {"./run/weights.safetensors"},
		otherWeights: {none + "no frontier"}, zero: {"mlp --subnets 0", "mlp --lambda 0", "mlp --kappa 0"}, noImage: {"./noimage.png"},
	},
	"train": {
		missing:   {"nothing.yaml", "nothing", "run.yaml --data fashion-mnist:nowhere --out new", "run.yaml --data folder:nowhere --out new", "run.yaml --resume --out new", "run.yaml --device xla:nothing.so --out new"},
		truncated: {"cut.yaml --out new", "run.yaml --out cut"}, otherNetwork: {"other.yaml --out run", "run.yaml --out other"},
		otherWeights: {none + "no frontier"}, zero: {"run.yaml --epochs 0 --out new", "run.yaml --threads -1 --out new", "run.yaml --set batch=0 --out new"},
		noImage: {"run.yaml --data folder:classes --out new", "noimage.png", "run.yaml --device xla:noimage.png --out new"},
	},
	"train plot": {
		missing: {"nowhere"}, truncated: {none + "a line that was cut off is what a kill leaves, and passed over"}, otherNetwork: {none + "no weights"},
		otherWeights: {none + "no frontier"}, zero: {none + "no amounts"}, noImage: {"noimage.png", "pictures"},
	},
	"profile": {
		missing: {"nothing.json", "mlp --time 1h --out nowhere/x.json", "mlp --time 1h --out run"}, truncated: {"cut-network.json"},
		otherNetwork: {"./run/weights.safetensors"}, otherWeights: {none + "no frontier"},
		zero: {"mlp --runs 0", "mlp --time 0s", "mlp --size 0", "mlp --threads 0", "mlp --subnets 0", "mlp --check 0"}, noImage: {"./noimage.png"},
	},
	"search": {
		missing:   {"nowhere", "run --weights nothing", "run --latency nothing", "run --cost price=nothing", "run --data folder:nowhere", "run --start nothing"},
		truncated: {"cut", "run --weights cut-weights.safetensors", "run --latency cut-latency.json", "run --cost price=price.csv"},
		// The answers in the folder are about other weights.
		otherNetwork: {"mixed", "run --weights other/weights.safetensors"}, otherWeights: {"exchanged"},
		zero:    {"run --budget macs<=0", "run --budget latency<=0ms", "run --evaluations 0", "run --threads 0", "run --at 0", "run --budget macs<=1"},
		noImage: {"run --data folder:classes --fresh --out new", "run --start noimage.png"},
	},
	"search compare": {
		missing: {"nowhere", "run --weights nothing"}, truncated: {"cut", "run --weights cut-weights.safetensors"},
		otherNetwork: {"mixed", "run --weights other/weights.safetensors"}, otherWeights: {none + "no frontier"},
		zero: {"run --evaluations 0", "run --seeds 0", "run --guided 0", "run --seeds 100000000", "run --evaluations 100000000"}, noImage: {"run --data folder:classes --out new"},
	},
	"eval": {
		missing: {"nowhere", "run --list nothing", "run --frontier nothing", "run --weights nothing", "run --data folder:nowhere", "--model nothing.json --weights run/weights.safetensors --data synthetic",
			"run --out nowhere/x.frontier --subnet full --on held-out", "run --out pictures", ""},
		truncated:    {"cut", "run --frontier cut-net.frontier", "run --weights cut-weights.safetensors", "--model cut-network.json --weights run/weights.safetensors --data synthetic"},
		otherNetwork: {"mixed", "run --weights other/weights.safetensors", "run --frontier other/net.frontier", "--model mobilenet_v2 --weights run/weights.safetensors --data synthetic"},
		otherWeights: {"run --frontier same/net.frontier", "exchanged --frontier exchanged/net.frontier"},
		zero:         {"run --threads 0", "run --threads 100000", "run --subnet 0", "run --images -1", "run --calibration -1"}, noImage: {"run --data folder:classes", "run --list noimage.png"},
	},
	"run": {
		missing:   {"run nothing.png", "nowhere boot.png", "boot.png", "run boot.png --frontier nothing", "boot.png --weights nothing", "run boot.png --classes nothing", "run boot.png --classes empty.txt"},
		truncated: {"run cut.png", "cut boot.png", "run boot.png --frontier cut-net.frontier", "boot.png --weights cut-weights.safetensors --frontier run/net.frontier"},
		otherNetwork: {"mixed boot.png", "boot.png --weights other/weights.safetensors --frontier run/net.frontier", "boot.png --weights run/weights.safetensors --network mobilenet_v2",
			"run boot.png --frontier other/net.frontier"},
		otherWeights: {"exchanged boot.png", "run boot.png --frontier same/net.frontier"},
		zero:         {"run boot.png --budget 0", "run boot.png --budget 0ms", "run boot.png --budget 0MiB", "run boot.png --top 0", "run boot.png --repeat 0", "run boot.png --budget 1ns --strict"},
		noImage:      {"run noimage.png", "run run/weights.safetensors", "run pictures"},
	},
	"export": {
		missing:      {"nowhere --onnx new.onnx", "run --onnx nowhere/x.onnx", "run --safetensors nowhere/x.safetensors", "--weights nothing --onnx new.onnx", "run --frontier nothing --onnx new.onnx"},
		truncated:    {"cut --onnx new.onnx", "--weights cut-weights.safetensors --onnx new.onnx", "run --frontier cut-net.frontier --onnx new.onnx"},
		otherNetwork: {"mixed --onnx new.onnx", "--weights run/weights.safetensors --network mobilenet_v2 --onnx new.onnx", "run --frontier other/net.frontier --onnx new.onnx"},
		otherWeights: {"exchanged --onnx new.onnx", "run --frontier same/net.frontier --go new"},
		zero:         {"run --subnet 0 --onnx new.onnx", "run --subnet 0ms --onnx new.onnx", "run --subnet 1 --batch -1 --onnx new.onnx", "run"}, noImage: {none + "no images"},
	},
	"report": {
		missing: {"nowhere", "run --out nowhere/x.html"}, truncated: {"cut"}, otherNetwork: {"mixed"}, otherWeights: {none + "it is left out, see below"},
		zero: {none + "no amounts"}, noImage: {"noimage.png", "pictures"},
	},
	"reproduce": {
		missing: {"nothing"}, truncated: {none + "no files"}, otherNetwork: {none + "no weights"}, otherWeights: {none + "no frontier"},
		zero: {""}, noImage: {none + "no images"},
	},
	"reproduce draws": {
		missing: {"nothing", "nothing.yaml", "--model nothing.json", "--steps 5 --out boot.png/x", "run.yaml another.yaml"}, truncated: {"cut.yaml", "--model cut-network.json"},
		otherNetwork: {"--model ./run/weights.safetensors", "run/weights.safetensors"}, otherWeights: {none + "no frontier"},
		zero: {"--steps 0", "--steps 100001", "--at 0", "--at 1e99", "--at ,", "--set method.factor=0.5", "--set method.factor", "--set method.analysis.path_nodes=1000", "--model mobilenet_v2:min=1"}, noImage: {"noimage.png", "--model ./noimage.png"},
	},
	"reproduce fig3": {
		missing:      {"--weights nothing --images pictures --model " + colourNetwork, "--weights colour.safetensors --images nowhere --model " + colourNetwork},
		truncated:    {"--weights cut-colour.safetensors --images pictures --model " + colourNetwork, "--weights colour.safetensors --images pictures --model cut-network.json"},
		otherNetwork: {"--weights run/weights.safetensors --images pictures", "--weights colour.safetensors --images pictures"}, otherWeights: {none + "no frontier"},
		zero: {"--weights colour.safetensors --images pictures --threads 0", ""}, noImage: {"--out new --weights colour.safetensors --images pictures --model " + colourNetwork},
	},
	"reproduce fig4a": {
		missing: {"--depths 80 --draws 1 --paths 3 --out boot.png/x"}, truncated: {none + "no files"}, otherNetwork: {none + "no weights"},
		otherWeights: {none + "no frontier"}, zero: {"--paths 0", "--draws 0", "--depths 0", "--path-nodes 0"}, noImage: {none + "no images"},
	},
	"reproduce fig4b": {
		missing: {"nowhere", "run --out boot.png/x"}, truncated: {none + "a line that was cut off is what a kill leaves, and passed over"}, otherNetwork: {"run other"},
		otherWeights: {none + "no frontier"}, zero: {""}, noImage: {"noimage.png", "pictures"},
	},
	"reproduce fig5": {
		missing: {"--model nothing.json"}, truncated: {"--model cut-network.json"}, otherNetwork: {"--model ./run/weights.safetensors"},
		otherWeights: {none + "no frontier"}, zero: {"--runs 0"}, noImage: {"--model ./noimage.png"},
	},
	"reproduce fig6": {
		missing: {"--model nothing.json"}, truncated: {"--model cut-network.json"}, otherNetwork: {"--model ./run/weights.safetensors"},
		otherWeights: {none + "no frontier"}, zero: {"--paths 0"}, noImage: {"--model ./noimage.png"},
	},
	"reproduce methods": {
		missing: {"nowhere", "run --data folder:nowhere"}, truncated: {"cut"}, otherNetwork: {"mixed", "run other"},
		otherWeights: {none + "no frontier"}, zero: {"run --candidates 0", "run --images 0", "run --threads 0", ""}, noImage: {"run --data folder:classes"},
	},
	"reproduce overhead": {
		missing:      {"--weights nothing", "--weights run/weights.safetensors --frontier nothing", "--python nothing --model mlp --subnets 2", "--node ./nothing --model mlp --subnets 2", "--model nothing.json"},
		truncated:    {"--weights cut-weights.safetensors", "--weights run/weights.safetensors --frontier cut-net.frontier", "--model cut-network.json"},
		otherNetwork: {"--weights run/weights.safetensors --model mobilenet_v2", "--weights other/weights.safetensors --frontier run/net.frontier"},
		otherWeights: {"--weights same/weights.safetensors --frontier run/net.frontier", "--frontier run/net.frontier"},
		zero:         {"--subnets 0", "--repetitions 0", "--threads 0"}, noImage: {none + "no images"},
	},
	"reproduce table1-cifar100": {
		missing:      {"nowhere --at 1M", "run --at 1M --data folder:nowhere", "run --at 1M --out boot.png/x --calibration 8 --images 8", "run --at 1M --noise nowhere", "run --at 1M --noise classes"},
		truncated:    {"cut --at 1M"},
		otherNetwork: {"mixed --at 1M", "run other --at 1M", "run"}, otherWeights: {"exchanged --at 1M"},
		zero: {"run --at 0", "run --at 1e19", "run --at 1M --threads 0", "run --at 1M --images -1", "--at 1M", "run --at 1M --weights run/weights.safetensors"}, noImage: {"run --at 1M --data folder:classes", "noimage.png"},
	},
	"reproduce table3": {
		missing:      {"nowhere", "run --frontier nothing", "run --weights nothing", "run --data folder:nowhere", "--weights run/weights.safetensors --frontier nothing"},
		truncated:    {"cut", "run --frontier cut-net.frontier", "run --weights cut-weights.safetensors"},
		otherNetwork: {"mixed", "run --weights other/weights.safetensors", "run other"}, otherWeights: {"exchanged", "run --frontier same/net.frontier"},
		zero: {"run --rows 0", "run --threads 0", "run --repeats 0", "run --time 0s", "run --images -1", ""}, noImage: {"run --data folder:classes"},
	},
	"reproduce widths": {
		missing:   {"nowhere", "nothing.csv", "run --data folder:nowhere", "run --ratios 1 --out boot.png/x --calibration 8 --images 8", "widths.csv --out boot.png/x", "run widths.csv"},
		truncated: {"cut", "cut-widths.csv"}, otherNetwork: {"mixed", "run other"}, otherWeights: {none + "no frontier"},
		zero: {"run --ratios 0", "run --ratios 0.5,0.5", "run --ratios ,", "run --threads 0", "run --images -1", "", "run --weights run/weights.safetensors", "widths.csv --ratios 1"}, noImage: {"run --data folder:classes --ratios 1", "noimage.png", "noimage.csv"},
	},
	"quickstart": {
		missing: {"--out boot.png/x"}, truncated: {none + "it reads no files"}, otherNetwork: {none + "no weights"}, otherWeights: {none + "no frontier"},
		zero: {none + "no amounts"}, noImage: {none + "no images"},
	},
	"devices": {
		missing: {none + "it reads no files"}, truncated: {none + "it reads no files"}, otherNetwork: {none + "no weights"},
		otherWeights: {none + "no frontier"}, zero: {none + "no amounts"}, noImage: {none + "no images"},
	},
	"version": {
		missing: {"nothing"}, truncated: {none + "no files"}, otherNetwork: {none + "no weights"}, otherWeights: {none + "no frontier"},
		zero: {none + "no amounts"}, noImage: {none + "no images"},
	},
}

// allVerbs lists the verbs of the program as they are typed.
func allVerbs() []string {
	var list []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			list = append(list, strings.TrimPrefix(sub.CommandPath(), "tips "))
			visit(sub)
		}
	}
	visit(newRoot())
	slices.Sort(list)
	return list
}

// TestBadInput gives every verb every kind of bad input: one clear line on stderr,
// nothing on stdout, a status that says which kind of failure it was, and no trace of
// the program's inside. A verb that is not in the table fails it.
func TestBadInput(t *testing.T) {
	kinds := []badInput{missing, truncated, otherNetwork, otherWeights, zero, noImage}
	for _, verb := range allVerbs() {
		for _, kind := range kinds {
			if len(badCommands[verb][kind]) == 0 {
				t.Errorf("tips %s: badCommands has no command line with %s, nor the reason why it takes none", verb, kind)
			}
		}
	}
	tips := ownProgram(t)
	dir := fixture(t, tips)
	before := files(t, dir)
	t.Run("verbs", func(t *testing.T) {
		for verb, byKind := range badCommands {
			for _, kind := range kinds {
				for _, line := range byKind[kind] {
					if strings.HasPrefix(line, none) {
						continue
					}
					t.Run(strings.ReplaceAll(verb+" "+line, "/", "|"), func(t *testing.T) {
						t.Parallel()
						o := tipsIn(t, tips, dir, append(strings.Fields(verb), strings.Fields(line)...)...)
						if verb == "quickstart" {
							o.stdout = "" // it tells what it is about to do
						}
						wantOneLine(t, kind, o)
					})
				}
			}
		}
	})
	// A page is of use without a frontier, but who asked for it should know.
	o := tipsIn(t, tips, dir, "report", "exchanged", "--out", filepath.Join(t.TempDir(), "page.html"))
	if o.status != 0 || !strings.HasPrefix(o.stderr, "left out: frontier exchanged/net.frontier: ") || !strings.Contains(o.stderr, "made for weights") {
		t.Errorf("tips report exchanged: status %d, stderr %q; want a line about the frontier that is left out", o.status, o.stderr)
	}
	// What was refused changed nothing that was there.
	after := files(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed by a command that failed", name)
		}
	}
	for name := range after {
		if strings.Contains(name, ".tmp") {
			t.Errorf("%s was left", name)
		}
	}
}

func wantOneLine(t *testing.T, kind badInput, o outcome) {
	t.Helper()
	if o.status != exitFailure && o.status != exitUsage {
		t.Errorf("%s: exit status %d; want %d or %d", kind, o.status, exitFailure, exitUsage)
	}
	if strings.Count(o.stderr, "\n") != 1 || !strings.HasPrefix(o.stderr, "tips: ") || len(o.stderr) < len("tips: x: yz\n") {
		t.Errorf("%s: stderr is\n%s\nwant one line that starts with 'tips: '", kind, o.stderr)
	}
	for _, bad := range []string{"panic", "goroutine ", ".go:", "%!", "<nil>", "runtime error"} {
		if strings.Contains(o.stderr, bad) || strings.Contains(o.stdout, bad) {
			t.Errorf("%s: %q in what it says:\n%s%s", kind, bad, o.stdout, o.stderr)
		}
	}
	if o.stdout != "" {
		t.Errorf("%s: stdout is\n%s\nwant nothing", kind, o.stdout)
	}
}

// files reads all files of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, dir+string(filepath.Separator))] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
