//go:build !unix

package main

import "os"

// terminalWidth is the number of columns of a terminal; 0: unknown.
func terminalWidth(*os.File) int { return 0 }
