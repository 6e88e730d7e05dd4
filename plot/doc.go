// Package plot draws figures from plain data: charts of curves and points, bars, and
// networks as graphs. It knows nothing of where the data comes from.
package plot
