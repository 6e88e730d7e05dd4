// Package cpuid tells which vector instructions an amd64 processor has and the
// operating system lets programs use. It is ours, and not golang.org/x/sys/cpu, so
// that what runs networks needs no module but this one: 'tips export --go' then
// writes programs that build without fetching anything. A test compares the two.
package cpuid
