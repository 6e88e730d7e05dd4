// Package folder locks folders that long work leaves its results in.
package folder
