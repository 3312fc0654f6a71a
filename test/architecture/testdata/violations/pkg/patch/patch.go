// Package patch breaks nothing.
package patch

import (
	_ "github.com/evanphx/json-patch/v5"
	_ "sigs.k8s.io/kustomize/kyaml/yaml"
)
