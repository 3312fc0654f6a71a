// Package hook reads unchecked values.
package hook

type spec struct {
	ObservedConfig, LogLevel string
}

func read(s spec) string { return s.LogLevel + s.ObservedConfig }
