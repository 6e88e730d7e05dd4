package cost

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// CPU names this machine's processor, as the system does.
func CPU() string { return cpuFrom("/proc/cpuinfo") }

func cpuFrom(file string) string {
	unknown := "unknown " + runtime.GOARCH
	f, err := os.Open(file)
	if err != nil {
		return unknown
	}
	defer f.Close()
	part := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name", "Model": // x86; boards such as Raspberry Pi
			if value != "" {
				return value
			}
		case "CPU part": // what arm64 has instead
			part = value
		}
	}
	if part != "" {
		return runtime.GOARCH + " part " + part
	}
	return unknown
}
