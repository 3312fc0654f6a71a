// Command pause keeps the namespaces of a pod alive until a signal ends it. As the first process of
// a pod it collects the processes that others leave.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	wait(make(chan os.Signal, 8))
}

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
