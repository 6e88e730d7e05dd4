package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how long after an interrupt another one is taken for the same: timeout(1)
// sends two, to the program and to its group.
const echo = 500 * time.Millisecond

// interruptible is a context that ends with the first interrupt, so that what is done can
// be saved. A second one, later, does not wait for that.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(echo)
		stop()
	})
	return ctx, stop
}
