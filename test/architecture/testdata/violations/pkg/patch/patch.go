// Package patch violates nothing.
package patch

import _ "sigs.k8s.io/kustomize/kyaml/yaml"
