// Package hook uses libraries of others.
package hook

import (
	_ "github.com/evanphx/json-patch/v5"
	_ "sigs.k8s.io/kustomize/kyaml/yaml"
)

type spec struct {
	ObservedConfig, LogLevel string
}

func read(s spec) string { return s.LogLevel + s.ObservedConfig }
