package kubectl

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// Status is the state of the drivers. Its JSON is the output of `status -o json`.
type Status struct {
	Findings   []Finding       `json:"findings"`
	Drivers    []DriverStatus  `json:"drivers"`
	Sidecars   []SidecarStatus `json:"sidecars"`
	Classes    []Class         `json:"storageClasses"`
	NotVisible []string        `json:"notVisible,omitempty"`

	now     time.Time
	verbose bool
	// absent means that the cluster contains no driver and no operator.
	absent bool
}

// Finding is something that is wrong with a driver.
type Finding struct {
	// Driver is "" if the finding is about all drivers.
	Driver string `json:"driver"`
	// Detail is a list, or what a component wrote.
	Detail string `json:"detail,omitempty"`
	diagnosis.Finding
}

// String returns the driver and the text.
func (f Finding) String() string { return strings.TrimPrefix(f.Driver+": ", ": ") + f.text() }

// DriverStatus is the state of a driver.
type DriverStatus struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Ready       string `json:"ready"`
	Cloud       string `json:"cloud"`
	Credentials string `json:"credentials"`
	Controller  string `json:"controller"` // the available and the desired number of pods
	Nodes       string `json:"nodes"`      // the same
	Operator    string `json:"operator"`
	// The numbers of sidecars of CSI-Addons.
	CSIAddonsSidecars  int `json:"csiAddonsSidecars,omitempty"`
	CSIAddonsConnected int `json:"csiAddonsConnected,omitempty"`

	Conditions []opv1.OperatorCondition `json:"conditions"`
}

// SidecarStatus is the state of a sidecar of a controller.
type SidecarStatus struct {
	Driver string `json:"driver"`
	Name   string `json:"name"`
	Leader string `json:"leader,omitempty"`
	Leads  bool   `json:"leads"`
}

// Class is a StorageClass with the number of its claims; nil if claims are not visible.
type Class struct {
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	Type    string `json:"type,omitempty"`
	Default bool   `json:"default,omitempty"`
	Claims  *int   `json:"claims,omitempty"`
	Pending *int   `json:"pending,omitempty"`
}

// worst returns why the drivers are not ready; "" if they are.
func (r *Status) worst() string {
	if len(r.Findings) == 0 || r.Findings[0].Severity == Warning {
		return ""
	}
	return r.Findings[0].String()
}

// ready returns the drivers if all of them are ready.
func (r *Status) ready() (titles []string) {
	for _, d := range r.Drivers {
		if d.Ready == string(opv1.ConditionTrue) {
			titles = append(titles, d.Title)
		}
	}
	if r.worst() != "" || len(titles) < len(r.Drivers) {
		return nil
	}
	return titles
}

func newDriverStatus(sys *system) DriverStatus {
	one := DriverStatus{
		Name: sys.of.name, Title: sys.of.title, Ready: "Unknown", Controller: "?", Nodes: "-",
		Operator: "?", Cloud: "-", Credentials: "-", Conditions: []opv1.OperatorCondition{},
	}
	if c := sys.condition(diagnosis.ConditionReady); c != nil {
		one.Ready = string(c.Status)
	}
	if c := sys.condition("CloudReachable"); c != nil {
		one.Cloud = short(c, "ok") + " " + sys.age(c.LastTransitionTime.Time)
	}
	if c := sys.condition("CredentialsAccepted"); c != nil {
		one.Credentials = short(c, "accepted")
		soon := sys.condition("CredentialsExpireSoon")
		if c.Status == opv1.ConditionTrue && soon != nil && soon.Status == opv1.ConditionTrue {
			one.Credentials = "expire soon"
		}
	}
	hosted := sys.hidden[hiddenControlPlane]
	if !hosted && !sys.hidden["Deployments"] {
		one.Controller = "-"
		if sys.controller != nil {
			one.Controller = podsReady(sys.controller)
		}
	}
	if len(sys.nodes) > 0 { // the DaemonSet with the fewest available pods
		worst := slices.MinFunc(sys.nodes, func(a, b appsv1.DaemonSet) int {
			return cmp.Compare(a.Status.NumberAvailable, b.Status.NumberAvailable)
		})
		one.Nodes = podsReady(&worst)
	}
	if !hosted && !sys.hidden["Leases"] {
		one.Operator = "absent"
		if sys.taker != "" {
			one.Operator = "no permissions"
		} else if sys.isLed() {
			one.Operator = strings.TrimSpace(tag(sys.operator) + " leads")
		}
	}
	return one
}

func podsReady(workload metav1.Object) string {
	w := diagnosis.NewWorkload(workload, nil)
	return fmt.Sprintf("%d/%d", w.Available, w.Wanted)
}

func short(c *opv1.OperatorCondition, good string) string {
	words := map[string]string{
		"CloudUnreachable": "unreachable", "AuthenticationFailed": "refused",
		"InvalidCredentials": "invalid", "NotOffered": "not offered",
	}
	if c.Status == opv1.ConditionTrue {
		return good
	}
	return cmp.Or(words[c.Reason], "unknown")
}

// tag returns the tag of the image of the operator, if it is a short one.
func tag(operator *appsv1.Deployment) string {
	const longest = 9
	if operator == nil || len(operator.Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	image := operator.Spec.Template.Spec.Containers[0].Image
	_, name, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if len(name) > longest || strings.Contains(image, "@") {
		return ""
	}
	return name
}

// maxClasses is the number of StorageClasses that fit in a terminal with 24 lines.
const maxClasses = 7

// write prints what is wrong first.
func (r *Status) write(out io.Writer, p palette) {
	const columns = " %-6s  %-4s "
	for _, f := range joined(r.Findings) {
		age := ""
		if !f.Since.IsZero() {
			age = duration.ShortHumanDuration(r.now.Sub(f.Since.Time))
		}
		l := linkOf(f.Finding)
		l.Text, l.Detail = strings.TrimSuffix(f.text()+". "+l.Next, ". "), cmp.Or(f.Detail, l.Detail)
		p.line(out, "", fmt.Sprintf(columns, f.Driver, age), l)
	}
	if ready := r.ready(); len(ready) > 0 {
		l := linkf(OK, "%s: ready, nothing is wrong", strings.Join(ready, ", "))
		if len(r.Findings) > 0 {
			l = linkf(OK, "%s: ready, with the warnings above", strings.Join(ready, ", "))
		}
		p.line(out, "", fmt.Sprintf(columns, "", ""), l)
	}
	if len(r.Drivers) > 0 {
		r.writeTables(out)
	}
	writeNotVisible(out, r.NotVisible)
	all, expected, more := 0, 0, " (-v lists them)"
	for _, d := range r.Drivers {
		if r.verbose && len(d.Conditions) > 0 {
			more = ""
			fmt.Fprintln(out, "CONDITIONS of "+d.Title)
		}
		for _, c := range d.Conditions {
			if all++; diagnosis.SeverityOf(c.Type, c.Status) == "" {
				expected++
			}
			if r.verbose {
				fmt.Fprintln(out, wrap("", fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason), 0))
			}
		}
	}
	if all > 0 {
		fmt.Fprintf(out, "As expected: %d of %d conditions%s.\n", expected, all, more)
	}
}

// writeTables writes a table of the drivers, of the sidecars, and of the StorageClasses.
func (r *Status) writeTables(out io.Writer) {
	rows := [][]string{{
		"DRIVER", "READY", "CLOUD", "CREDENTIALS", "CONTROLLER", "NODES", "OPERATOR",
	}}
	for _, d := range r.Drivers {
		rows = append(rows, []string{
			d.Title, d.Ready, d.Cloud, d.Credentials, d.Controller, d.Nodes, d.Operator,
		})
	}
	writeTable(out, rows)
	rows = [][]string{{"SIDECAR", "LEADER"}}
	for _, s := range r.Sidecars {
		leader := cmp.Or(s.Leader, "none")
		if !s.Leads && s.Leader != "" {
			leader += " (gone)"
		}
		rows = append(rows, []string{s.Driver + " " + s.Name, leader})
	}
	writeTable(out, rows)
	for _, d := range r.Drivers {
		if d.CSIAddonsSidecars > 0 {
			fmt.Fprintf(out, "CSI-Addons of %s: %d of %d sidecars are connected.\n", d.Title,
				d.CSIAddonsConnected, d.CSIAddonsSidecars)
		}
	}
	r.writeClasses(out)
}

// writeClasses writes those with most pending claims first.
func (r *Status) writeClasses(out io.Writer) {
	classes := slices.Clone(r.Classes)
	slices.SortStableFunc(classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Pending, 0), ptr.Deref(a.Pending, 0)),
			cmp.Compare(a.Name, b.Name))
	})
	rows := [][]string{{"CLASS", "DRIVER", "CLAIMS", "PENDING"}}
	more := 0
	for i, c := range classes {
		if i >= maxClasses && !r.verbose {
			more++
			continue
		}
		name := c.Name
		if c.Default {
			name += " (default)"
		}
		rows = append(rows, []string{name, c.Driver, number(c.Claims), number(c.Pending)})
	}
	writeTable(out, rows)
	if more > 0 {
		fmt.Fprintf(out, "and %d more classes (-v lists them)\n", more)
	}
}

func number(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// writeTable writes aligned columns; nothing if there is only a header.
func writeTable(out io.Writer, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = strings.Join(strings.Fields(printable(row[i])), " ")
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // the writer that it fills reports the error again
}
