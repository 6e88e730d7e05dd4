// Package peak measures what the CPU's FMA units can do at most, for
// benchmarks to say how far from it a kernel is.
package peak

// Unit is one width of FMA the CPU has.
type Unit struct {
	Name string
	// FLOPs is the floating-point operations of one step of Run.
	FLOPs int
	// Run takes n steps of independent multiply-adds in registers.
	Run func(n int)
}
