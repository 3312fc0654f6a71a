// Package view shows what operators make of a cluster: the conditions they
// report, their workloads and StorageClasses; and it tells when all is ready.
// Package command uses it.
package view

import (
	"cmp"
	"fmt"
	"slices"
)

// Condition is one condition of the ClusterCSIDriver.
type Condition struct {
	Type, Status, Reason, Message string
}

// Workload is a Deployment or DaemonSet.
type Workload struct {
	Kind, Name string
	// Ready and Desired count pods.
	Ready, Desired int32
	// RolledOut is set when all pods are up to date and available.
	RolledOut bool
	// Side is the cluster it is in, empty if there is only one.
	Side Side
}

// Side is a cluster in the eyes of a hosted control plane.
type Side string

// The sides.
const (
	Management Side = "management"
	Guest      Side = "guest"
)

// Class is a StorageClass of a driver. ShareType is empty if it is for none.
type Class struct {
	Name      string
	ShareType string
}

// Driver says what belongs to a driver, and what is expected of it.
type Driver struct {
	// Title is for people, Name is that of the driver and its ClusterCSIDriver.
	Title, Name string
	// Namespace has its workloads, and those of no other driver.
	Namespace string
	// Controller is a Deployment of it in the management cluster, and
	// ControlPlaneNamespace where it is, beside many others. Both are empty if nothing
	// is hosted.
	Controller, ControlPlaneNamespace string
	// Classes must exist, and one for each share type if PerShareType is set.
	Classes      []string
	PerShareType bool
}

func (d Driver) isHosted() bool { return d.Controller != "" }

// side is that of the cluster whose nodes the driver serves.
func (d Driver) side() Side {
	if d.isHosted() {
		return Guest
	}
	return ""
}

// State is that of one driver, each part sorted.
type State struct {
	Driver     Driver
	Conditions []Condition
	Workloads  []Workload
	Classes    []Class
}

// Snapshot is the state of all drivers at one moment.
type Snapshot []State

func (s State) sort() {
	slices.SortFunc(s.Conditions, func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	slices.SortFunc(s.Workloads, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(s.Classes, func(a, b Class) int { return cmp.Compare(a.Name, b.Name) })
}

func (c Condition) String() string {
	text := fmt.Sprintf("condition %s=%s", c.Type, c.Status)
	if c.Reason != "" && c.Reason != "AsExpected" {
		text += " " + c.Reason
	}
	if c.Message != "" && c.Message != "As expected" {
		text += ": " + c.Message
	}
	return text
}

func (w Workload) String() string {
	text := fmt.Sprintf("%s %s %d/%d", w.Kind, w.Name, w.Ready, w.Desired)
	if !w.RolledOut {
		text += " rolling out"
	}
	if w.Side != "" {
		text += fmt.Sprintf(" (%s)", w.Side)
	}
	return text
}

func (c Class) String() string {
	if c.ShareType == "" {
		return "StorageClass " + c.Name
	}
	return fmt.Sprintf("StorageClass %s for share type %q", c.Name, c.ShareType)
}
