// Package generator violates nothing, but commands must not link its imports.
package generator

import (
	_ "example.org/module/pkg/patch"
	_ "k8s.io/client-go/rest"
)
