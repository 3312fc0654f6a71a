package main

import (
	"os"
	"os/signal"
	"syscall"
)

// wait returns after SIGINT or SIGTERM. The channel receives the signals.
func wait(signals chan os.Signal) {
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}
