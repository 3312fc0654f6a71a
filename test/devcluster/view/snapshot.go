// Package view reports what operators do in a cluster: their conditions, workloads and
// StorageClasses, and what is missing until all drivers are ready. Package command calls it.
package view

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// Names of the two clusters of a hosted control plane.
const (
	management = "management"
	guest      = "guest"
)

// Driver says which objects belong to a driver, and which of them are expected.
type Driver struct {
	// Title is the short name of the driver. Name is the name of its ClusterCSIDriver.
	Title, Name string
	// Namespace contains the workloads of this driver only.
	Namespace string
	// Controller is the name of its Deployment in the management cluster, and ControlPlaneNamespace
	// the namespace. Both are empty in a standalone cluster.
	Controller, ControlPlaneNamespace string
	// Classes are required, and one class for each share type if PerShareType is set.
	Classes      []string
	PerShareType bool
}

func (d Driver) isHosted() bool { return d.Controller != "" }

// Workload is a Deployment or DaemonSet.
type Workload struct {
	Kind, Name string
	// Ready and Desired count pods.
	Ready, Desired int32
	// RolledOut is set when all pods are up to date and available.
	RolledOut bool
	// Cluster is management or guest. It is empty in a standalone cluster.
	Cluster string
}

// State is the state of one driver.
type State struct {
	Driver     Driver
	Conditions []opv1.OperatorCondition
	Workloads  []Workload
	Classes    []storagev1.StorageClass
}

// Snapshot is the state of all drivers at one moment.
type Snapshot []State

// Lines describes each object in one line. A line starts with the kind and name of the object.
func (s Snapshot) Lines() []string {
	return s.each(func(driver State) []string {
		var lines []string
		for _, c := range driver.Conditions {
			lines = append(lines, conditionLine(c))
		}
		for _, w := range driver.Workloads {
			lines = append(lines, w.String())
		}
		for _, c := range driver.Classes {
			line := "StorageClass " + c.Name
			if shareType := c.Parameters["type"]; shareType != "" {
				line += fmt.Sprintf(" for share type %q", shareType)
			}
			lines = append(lines, line)
		}
		return lines
	})
}

// Missing lists what must change until all drivers are ready.
func (s Snapshot) Missing(shareTypes []string) []string {
	return s.each(func(driver State) []string {
		return slices.Concat(
			driver.missingConditions(), driver.missingWorkloads(), driver.missingClasses(shareTypes))
	})
}

// each collects the lines of all drivers. If there are several drivers, a line starts with a title.
func (s Snapshot) each(lines func(State) []string) []string {
	var all []string
	for _, driver := range s {
		for _, line := range lines(driver) {
			if len(s) > 1 {
				line = driver.Driver.Title + ": " + line
			}
			all = append(all, line)
		}
	}
	return all
}

func (s State) missingConditions() []string {
	var missing []string
	available := 0
	for _, c := range s.Conditions {
		switch {
		case strings.HasSuffix(c.Type, "Available") && c.Status == opv1.ConditionTrue:
			available++
		case strings.HasSuffix(c.Type, "Available"), strings.HasSuffix(c.Type, "Disabled"),
			strings.HasSuffix(c.Type, "Degraded") && c.Status == opv1.ConditionTrue:
			missing = append(missing, conditionLine(c))
		}
	}
	if available == 0 && len(missing) == 0 {
		missing = append(missing, "no Available condition is True")
	}
	return missing
}

func (s State) missingWorkloads() []string {
	var missing []string
	in := func(cluster string) bool {
		return slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Cluster == cluster })
	}
	switch {
	case len(s.Workloads) == 0:
		missing = append(missing, "there are no workloads")
	case s.Driver.isHosted() && !in(management):
		missing = append(missing, "no Deployment "+s.Driver.Controller+" in the management cluster")
	case s.Driver.isHosted() && !in(guest):
		missing = append(missing, "there are no workloads in the guest cluster")
	}
	for _, w := range s.Workloads {
		if !w.RolledOut {
			missing = append(missing, w.String())
		}
	}
	return missing
}

func (s State) missingClasses(shareTypes []string) []string {
	names, types := map[string]bool{}, map[string]bool{}
	for _, c := range s.Classes {
		names[c.Name], types[c.Parameters["type"]] = true, true
	}
	var missing []string
	for _, name := range s.Driver.Classes {
		if !names[name] {
			missing = append(missing, "no StorageClass "+name)
		}
	}
	for _, name := range shareTypes {
		if s.Driver.PerShareType && !types[name] {
			missing = append(missing, fmt.Sprintf("no StorageClass for share type %q", name))
		}
	}
	return missing
}

func conditionLine(c opv1.OperatorCondition) string {
	line := fmt.Sprintf("condition %s=%s", c.Type, c.Status)
	if c.Reason == "AsExpected" {
		return line
	}
	if c.Reason != "" {
		line += " " + c.Reason
	}
	if c.Message != "" {
		line += ": " + c.Message
	}
	return line
}

// String implements fmt.Stringer.
func (w Workload) String() string {
	text := fmt.Sprintf("%s %s %d/%d", w.Kind, w.Name, w.Ready, w.Desired)
	if !w.RolledOut {
		text += " rolling out"
	}
	if w.Cluster != "" {
		text += fmt.Sprintf(" (%s)", w.Cluster)
	}
	return text
}
