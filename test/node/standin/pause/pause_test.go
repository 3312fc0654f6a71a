package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestPauseEndsAfterSIGTERM(t *testing.T) {
	t.Parallel()
	signals, ended := make(chan os.Signal, 1), make(chan bool)
	go func() {
		wait(signals)
		close(ended)
	}()
	signals <- syscall.SIGTERM
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the program still runs")
	}
}
