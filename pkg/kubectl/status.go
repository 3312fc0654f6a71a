package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// repetition is how often `status` reads.
type repetition struct{ waits, watches bool }

func newStatusCommand(o *options) *cobra.Command {
	r, allGuests := repetition{}, false
	cmd := &cobra.Command{
		Use:   "status [DRIVER]",
		Short: "Show the state of the drivers, and what is wrong",
		Long: "Show the state of the drivers, of their sidecars and StorageClasses, and first what is " +
			"wrong. The ClusterRole openstack-csi-viewer is enough.",
		Example:   "  kubectl openstack-csi status\n  kubectl openstack-csi status manila --wait",
		Args:      atMost(1),
		ValidArgs: []string{"cinder", "manila"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.watches && r.waits {
			return usage("use either --watch or --wait")
		}
		if allGuests && (r.watches || r.waits || o.managementKubeconfig != "") {
			return usage("use --all-guests without --watch, --wait and --management-kubeconfig")
		}
		if limit := cmd.Flags().Lookup("timeout"); r.watches && !limit.Changed {
			const year = "8760h"
			if err := limit.Value.Set(year); err != nil {
				return err
			}
		}
		return o.run(func(ctx context.Context, s *session, args []string) error {
			if allGuests {
				return s.showGuests(ctx, args)
			}
			return s.showStatus(ctx, args, r)
		})(cmd, args)
	}
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	o.addOutputTo(cmd)
	cmd.Flags().BoolVar(&r.waits, "wait", false,
		"Repeat until no driver has a problem, and no workload is rolled out.")
	cmd.Flags().BoolVarP(&r.watches, "watch", "w", false,
		"Print the state again when it changes, without a time limit.")
	cmd.Flags().BoolVar(&allGuests, "all-guests", false,
		"On HyperShift, read each guest cluster of the management cluster, and show the worst first.")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false,
		"List all conditions and all StorageClasses.")
	return cmd
}

func atMost(count int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > count {
			return usage("unexpected argument %q", args[count])
		}
		return nil
	}
}

// showStatus prints the last report, also if the time has passed.
func (s *session) showStatus(ctx context.Context, args []string, r repetition) error {
	chosen, err := s.guest.choose(args)
	if err != nil {
		return err
	}
	var report *Status
	last, shown := "", ""
	err = wait.PollUntilContextCancel(ctx, s.interval, true,
		func(ctx context.Context) (bool, error) {
			now, err := s.status(ctx, chosen)
			if err != nil {
				return false, err
			}
			report = now
			if r.watches {
				shown, err = s.printChange(report, shown)
				return false, err
			}
			if problem := report.worst(); r.waits && problem != "" && problem != last {
				last = problem
				fmt.Fprintln(s.Err, printable(problem))
			}
			return !r.waits || report.worst() == "", nil
		})
	if report == nil {
		return err
	}
	if !r.watches {
		err = errors.Join(err, s.print("Status", report))
	} else if errors.Is(ctx.Err(), context.Canceled) {
		err = nil // the user has ended it
	}
	if err == nil && report.worst() != "" {
		return errProblem
	}
	return err
}

// newStatus returns a state without drivers. Its JSON contains empty lists.
func (s *session) newStatus() *Status {
	return &Status{
		Findings: append([]Finding{}, s.more...), Drivers: []DriverStatus{}, Sidecars: []SidecarStatus{},
		Classes: []Class{}, now: s.clock.Now(), verbose: s.verbose,
	}
}

// status reads the state of drivers.
func (s *session) status(ctx context.Context, chosen []driver) (*Status, error) {
	report := s.newStatus()
	for _, d := range chosen {
		s.systems[d.name] = s.system(ctx, d)
		if sys := s.systems[d.name]; sys != nil {
			report.add(sys, list[v1alpha1.CSIAddonsNodeList](ctx, s.guest,
				client.InNamespace(d.namespace)).Items)
			report.warn(d.title, s.doubleDefault(ctx, d)...)
			continue
		}
		s.addGone(ctx, d, report)
	}
	gone := report.Findings[len(s.more):]
	report.absent = len(report.Drivers) == 0 && !slices.ContainsFunc(gone, func(f Finding) bool {
		return f.Type != volumesUnserved
	})
	if report.absent && len(gone) == 0 {
		report.find("", diagnosis.Finding{
			Severity: Problem, Type: "NoDriver", Message: s.absent(chosen),
		})
	}
	s.addClasses(ctx, chosen, report)
	s.addVolumes(ctx, chosen, report)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return a.Severity.Compare(b.Severity)
	})
	report.NotVisible = s.notVisible()
	return report, s.failed()
}

func (r *Status) find(driver string, f diagnosis.Finding) {
	r.Findings = append(r.Findings, Finding{driver, "", f})
}

// absent says that no driver exists, and what to do.
func (s *session) absent(chosen []driver) string {
	text := "No operator of a driver of OpenStack is configured"
	if len(chosen) == 1 {
		text = s.guest.nameOf(chosen[0]) + " does not exist"
	}
	if s.guest.unseen() {
		return "You may not read the objects that configure operators, so the state of the drivers is " +
			"not known. Ask for the ClusterRole openstack-csi-viewer: " +
			version.Page("docs/kubectl.md#permissions")
	}
	return text + ". Before you install it, run: kubectl openstack-csi check --clouds clouds.yaml. " +
		"How to install it: " + version.Page("README.md#install")
}

// addGone adds a problem if a driver, its operator or its volumes exist, and nothing configures the
// operator.
func (s *session) addGone(ctx context.Context, d driver, report *Status) {
	if s.guest.unseen() {
		return
	}
	f := diagnosis.Finding{
		Severity: Problem, Type: s.guest.kindOf(d).Kind + "Gone", Reason: "NotFound",
		Runbook: runbookAbsent,
	}
	at, l := s.place(ctx, d), s.goneLink(d.name)
	f.Message, f.Next = l.Text, l.Next
	if find(ctx, s.guest, d.namespace, d.nodes[0], &appsv1.DaemonSet{}) == nil && (at == nil ||
		find(ctx, at.cluster, at.operator, d.operator, &appsv1.Deployment{}) == nil) {
		f.Type, f.Message, f.Next = volumesUnserved, s.unservedBy(ctx, d), s.guest.again(d)
	}
	if f.Message != "" {
		report.find(d.title, f)
	}
}

// addClasses adds the StorageClasses of the drivers, and the number of claims of each.
func (s *session) addClasses(ctx context.Context, chosen []driver, report *Status) {
	var defaults []string
	classes := list[storagev1.StorageClassList](ctx, s.guest).Items
	claims := list[corev1.PersistentVolumeClaimList](ctx, s.guest).Items
	for _, class := range classes {
		byDefault := class.Annotations[isDefault] == "true"
		if byDefault {
			defaults = append(defaults, class.Name)
		}
		i := slices.IndexFunc(chosen, func(d driver) bool { return d.name == class.Provisioner })
		if i < 0 {
			continue
		}
		c := Class{
			Name: class.Name, Driver: chosen[i].title, Type: class.Parameters["type"], Default: byDefault,
		}
		if !s.guest.hidden["PersistentVolumeClaims"] {
			c.count(claims)
		}
		report.Classes = append(report.Classes, c)
	}
	switch {
	case len(report.Classes) == 0:
	case len(defaults) == 0:
		report.warn(s.defaultless(ctx, report.Classes))
	case len(defaults) > 1:
		report.warn(report.Classes[0].Driver, "StorageClasses "+strings.Join(defaults, ", ")+
			" are the default. Claims that name none get the newest")
	}
}

// addVolumes adds warnings for PersistentVolumes whose deletion fails, or whose Secret is missing.
func (s *session) addVolumes(ctx context.Context, chosen []driver, report *Status) {
	volumes := list[corev1.PersistentVolumeList](ctx, s.guest).Items
	s.addStranded(ctx, volumes, report)
	for _, d := range chosen {
		var undeleted []string
		for i, v := range volumes {
			if text := s.undeleted(&volumes[i]); text != "" && driverOf(&volumes[i]) == d.name {
				undeleted = append(undeleted, "PersistentVolume "+v.Name+": "+text)
			}
		}
		report.warn(d.title, undeleted...)
		s.addSecretless(ctx, d, volumes, report)
	}
}

// warn adds the first of several warnings, if there is any, and the number of the others.
func (r *Status) warn(driver string, messages ...string) {
	if more := len(messages) - 1; more > 0 {
		messages[0] += fmt.Sprintf(" (and %d more)", more)
	}
	if len(messages) > 0 {
		r.find(driver, diagnosis.Finding{Severity: Warning, Type: "Storage", Message: messages[0]})
	}
}

func (c *Class) count(claims []corev1.PersistentVolumeClaim) {
	c.Claims, c.Pending = new(int), new(int)
	for _, claim := range claims {
		if ptr.Deref(claim.Spec.StorageClassName, "") != c.Name {
			continue
		}
		*c.Claims++
		if claim.Status.Phase == corev1.ClaimPending {
			*c.Pending++
		}
	}
}

func (r *Status) add(sys *system, nodes []v1alpha1.CSIAddonsNode) {
	for _, f := range sys.findings() {
		r.find(sys.of.title, f)
	}
	if sys.controller != nil || sys.hidden[hiddenControlPlane] {
		for _, sidecar := range sys.of.sidecars {
			lease := sys.leases[sidecar]
			r.Sidecars = append(r.Sidecars, SidecarStatus{
				Driver: sys.of.title, Name: string(sidecar), Leader: sys.leader(lease),
				Leads: lease != nil && sys.leaderless(sidecar) == nil,
			})
		}
	}
	one, lost := newDriverStatus(sys), []string(nil)
	for _, node := range nodes {
		if node.Spec.Driver.Name == sys.of.name {
			one.CSIAddonsSidecars++
			if l := sys.guest.unconnected(&node); l != nil {
				lost = append(lost, l.sentence(maxSentence))
				continue
			}
			one.CSIAddonsConnected++
		}
	}
	r.warn(sys.of.title, lost...)
	for _, c := range sys.object.Status.Conditions {
		if !diagnosis.Summarizes(c.Type) {
			one.Conditions = append(one.Conditions, c)
		}
	}
	r.Drivers = append(r.Drivers, one)
}
