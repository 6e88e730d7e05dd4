package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"tips/internal/atomicfile"
)

// The peer: ONNX Runtime's CPU library as its npm package ships it. The Go binding
// brings none.
const (
	peerPackage = "onnxruntime-node"
	peerVersion = "1.30.0"
	peerInside  = "package/bin/napi-v6/linux/x64/libonnxruntime.so.1"
)

// errNoPeer is wrapped where there is no peer for this machine.
var errNoPeer = errors.New("ONNX Runtime is not at hand")

// peerLibrary is where the library is kept.
func peerLibrary(cache string) string {
	return filepath.Join(cache, peerPackage+"-"+peerVersion, filepath.Base(peerInside))
}

// fetchPeer gives the path of the library, and gets it with npm where it is
// missing. Nothing of the package is run.
func fetchPeer(cache string) (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: the comparison needs linux/amd64, this is %s/%s", errNoPeer, runtime.GOOS, runtime.GOARCH)
	}
	library := peerLibrary(cache)
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("%w: %s is missing and so is npm to fetch it", errNoPeer, library)
	}
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(cache, "fetch-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	progress("fetching %s@%s with npm", peerPackage, peerVersion)
	pack := exec.Command(npm, "pack", "--silent", "--ignore-scripts", peerPackage+"@"+peerVersion)
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm pack: %w\n%s", errNoPeer, err, out)
	}
	return library, unpack(filepath.Join(dir, peerPackage+"-"+peerVersion+".tgz"), library)
}

// unpack takes the library out of the package.
func unpack(archive, library string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %s is not in %s@%s", errNoPeer, peerInside, peerPackage, peerVersion)
		}
		if err != nil {
			return err
		}
		if h.Name == peerInside {
			return atomicfile.Write(library, func(w io.Writer) error {
				_, err := io.Copy(w, r)
				return err
			})
		}
	}
}

// python is the interpreter that Debian's packages belong to.
const python = "/usr/bin/python3"

// fetchChecker gets the checker of the onnx project as a Debian package where it
// is missing. It gives its version, or the reason why there is none.
func fetchChecker() (version string, err error) {
	ask := func() (string, error) {
		out, err := exec.Command(python, "-c", "import onnx; print(onnx.__version__)").Output()
		return strings.TrimSpace(string(out)), err
	}
	if version, err = ask(); err == nil {
		return version, nil
	}
	progress("installing python3-onnx")
	if out, err := exec.Command("apt-get", "install", "-y", "-q", "python3-onnx").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("python3-onnx cannot be installed: %w: %s", err, lines[len(lines)-1])
	}
	return ask()
}

// checkModels has the checker read model files.
func checkModels(names []string) error {
	const script = "import sys, onnx\nfor name in sys.argv[1:]: onnx.checker.check_model(onnx.load(name), full_check=True)"
	if out, err := exec.Command(python, append([]string{"-c", script}, names...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
