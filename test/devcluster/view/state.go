package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// Cluster is what a Source read.
type Cluster struct {
	// Guest is the guest cluster. It is empty in a standalone cluster.
	Guest string
	State State
	// Events are the newest events of the operators, for Live only.
	Events []Event
	// Err is set if the cluster could not be read.
	Err error
}

// State describes one or more drivers.
type State struct {
	Drivers []Driver
	// Addons contains a line for each object of CSI-Addons.
	Addons []string
	// Missing lists what must change until the drivers are ready.
	Missing []string
}

// Driver is the state of a driver.
type Driver struct {
	Name string
	// Conditions are sorted by their type, Findings by their importance.
	Conditions []opv1.OperatorCondition
	Findings   []diagnosis.Finding
	Workloads  []Workload
	Classes    []Class
}

// Workload is a Deployment or a DaemonSet.
type Workload struct {
	Kind, Name     string
	Ready, Desired int32
	IsCurrent      bool
}

// Class is a StorageClass.
type Class struct {
	Name, ShareType string
	IsDefault       bool
	// IsGone says that OpenStack does not list the share type.
	IsGone bool
}

// Event is an event of an operator, or a message of the devcluster itself.
type Event struct {
	At           time.Time
	Driver, Text string
}

// Missing lists what must change until the drivers of all clusters are ready.
func Missing(clusters []Cluster) []string {
	var missing []string
	for _, c := range clusters {
		switch {
		case c.Err != nil:
			missing = append(missing, c.Err.Error())
		case len(clusters) == 1:
			missing = c.State.Missing
		case len(c.State.Missing) > 0:
			missing = append(missing, c.line())
		}
	}
	return missing
}

// line describes one of several clusters.
func (c Cluster) line() string {
	if len(c.State.Missing) == 0 {
		return "cluster " + c.Guest + " is ready"
	}
	// in one line
	return "cluster " + c.Guest + " waits: " + strings.Join(strings.Fields(c.State.Missing[0]), " ")
}

// Lines returns a line for each object, which starts with the kind and name of the object. If there
// are several drivers, each line starts with a driver.
func (s State) Lines() []string {
	var lines []string
	for _, d := range s.Drivers {
		title := ""
		if len(s.Drivers) > 1 {
			title = d.Name + ": "
		}
		for _, c := range d.Conditions {
			lines = append(lines, title+conditionLine(c))
		}
		for _, w := range d.Workloads {
			lines = append(lines, title+w.Kind+" "+w.Name+" "+w.status())
		}
		for _, c := range d.Classes {
			line := title + "StorageClass " + c.Name
			if c.ShareType != "" {
				line += fmt.Sprintf(" for share type %q", c.ShareType)
			}
			lines = append(lines, line)
		}
	}
	return append(lines, s.Addons...)
}

func (w Workload) status() string {
	status := fmt.Sprintf("%d/%d", w.Ready, w.Desired)
	if !w.IsCurrent {
		status += " rolling out"
	}
	return status
}

func conditionLine(c opv1.OperatorCondition) string {
	line := fmt.Sprintf("condition %s=%s", c.Type, c.Status)
	if c.Reason == diagnosis.ReasonAsExpected {
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

// newDriver returns the conditions of a driver, and what is wrong with it.
func newDriver(o fixtures.Operator, driver *opv1.ClusterCSIDriver) Driver {
	byType := func(a, b opv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) }
	return Driver{
		Name:       o.Driver,
		Conditions: slices.SortedFunc(slices.Values(driver.Status.Conditions), byType),
		Findings:   diagnosis.Driver(driver, len(o.Workloads)),
	}
}

// missing returns what prevents a driver from being ready. A driver that the cloud does not offer
// is ready, but the devcluster waits until it is deployed.
func (d *Driver) missing() []string {
	var missing []string
	for _, f := range d.Findings {
		if f.Severity != diagnosis.Warning {
			missing = append(missing, fmt.Sprintf("%s, reason %s: %s", f.Type, f.Reason, f.Message))
		}
	}
	ready := diagnosis.Ready(d.Findings)
	if ready.Status == opv1.ConditionUnknown || ready.Reason == diagnosis.ReasonDriverDisabled {
		missing = append(missing, ready.Message)
	}
	if len(missing) == 0 && !d.isReady() {
		missing = append(missing, "the operator has not written yet that the driver is ready")
	}
	return missing
}

// isReady returns whether the operator has written that the driver is ready.
func (d *Driver) isReady() bool {
	return slices.ContainsFunc(d.Conditions, func(c opv1.OperatorCondition) bool {
		return c.Type == diagnosis.ConditionReady && c.Status == opv1.ConditionTrue
	})
}

// addClasses adds the StorageClasses of a driver, and returns those that it must still create. A
// share type for which a driver that is ready has no class is one that the administrator excludes.
func (d *Driver) addClasses(
	o fixtures.Operator, classes []storagev1.StorageClass, shareTypes []string,
) (missing []string) {
	names, types := map[string]bool{}, map[string]bool{}
	for _, c := range classes {
		if c.Provisioner != o.ClusterCSIDriver {
			continue
		}
		shareType := c.Parameters["type"]
		d.Classes = append(d.Classes, Class{
			Name: c.Name, ShareType: shareType,
			IsDefault: c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true",
			IsGone:    o.ClassPerShareType && !slices.Contains(shareTypes, shareType),
		})
		names[c.Name], types[shareType] = true, true
	}
	for _, name := range o.StorageClasses {
		if !names[name] {
			missing = append(missing, "no StorageClass "+name)
		}
	}
	for _, name := range shareTypes {
		if o.ClassPerShareType && !types[name] && !d.isReady() {
			missing = append(missing, fmt.Sprintf("no StorageClass for share type %q", name))
		}
	}
	return missing
}
