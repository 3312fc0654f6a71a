package connection

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Security says how the controller connects to the sidecars of a driver.
type Security int

// The levels of security.
const (
	// Pinned means TLS with the key that the sidecar publishes, and a token for one pod.
	Pinned Security = iota
	// Unverified means TLS with any key, and a token of a ServiceAccount without permissions for the
	// API server.
	Unverified
	// Plaintext means neither TLS nor a token.
	Plaintext
)

// Driver says what the controller accepts from a driver.
type Driver struct {
	// Namespaces are the namespaces of its pods.
	Namespaces []string
	Security   Security
}

// Drivers are the drivers that the controller serves, by name.
type Drivers map[string]Driver

// Allows returns whether pods of a driver may be in a namespace.
func (d Drivers) Allows(driver, namespace string) bool {
	return slices.Contains(d[driver].Namespaces, namespace)
}

// Namespaces returns the namespaces of all drivers, sorted.
func (d Drivers) Namespaces() []string {
	all := sets.New[string]()
	for _, driver := range d {
		all.Insert(driver.Namespaces...)
	}
	return sets.List(all)
}
