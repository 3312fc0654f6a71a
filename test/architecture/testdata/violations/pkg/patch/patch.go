// Package patch breaks nothing.
package patch

import _ "sigs.k8s.io/kustomize/kyaml/yaml"
