// Package generator breaks nothing itself, but what links it must not link its imports.
package generator

import (
	_ "example.org/module/pkg/patch"
	_ "k8s.io/client-go/rest"
)
