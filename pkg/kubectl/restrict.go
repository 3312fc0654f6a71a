package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	operator "github.com/openstack-csi/csi-operator/pkg/version"
)

// restriction lets only some networks mount the shares of claims that every address may mount.
type restriction struct {
	cloud

	*session

	to          []string
	all, revoke bool

	networks []netip.Prefix
	manila   *shares.Requests
	// cluster is the ID with which the driver marks its shares.
	cluster string
	// mounts are the shares of the claims of the cluster, and kept the claims that -A leaves alone.
	mounts []*mount
	kept   []string
	// seen are the nodes on which a pod runs with a share that only the networks may mount.
	seen map[string]bool
}

// mount is the share of a claim. using are the nodes of its pods, running those of running pods.
type mount struct {
	claim          client.ObjectKey
	share          string
	using, running []string
	// rules are those that Manila has returned last, and level is that of a rule for every address.
	rules []shares.AccessRule
	level string
}

func newRestrictCommand(o *options) *cobra.Command {
	r := &restriction{seen: map[string]bool{}}
	cmd := &cobra.Command{
		Use:   "restrict CLAIM... | restrict -A",
		Short: "Let only some networks mount shares that every address may mount",
		Long: "Let only some networks mount the shares of claims that every address may mount. The " +
			"command adds access rules in Manila, and waits until they are active. With --revoke it " +
			"removes the rules for every address, unless that could end a mount.",
		Example: "  kubectl openstack-csi restrict -A --to=10.0.0.0/16 --clouds=clouds.yaml\n" +
			"  kubectl openstack-csi restrict -A --to=10.0.0.0/16 --clouds=clouds.yaml --revoke",
		RunE: o.run(func(ctx context.Context, s *session, names []string) error {
			r.session, s.again = s, "to continue"
			return r.run(ctx, names)
		}),
	}
	addTimeoutTo(cmd.Flags(), 10*time.Minute)
	r.cloud.addTo(cmd)
	cmd.Flags().StringSliceVar(&r.to, "to", nil, "Networks of the nodes, as Manila sees them.")
	cmd.Flags().BoolVarP(&r.all, "all-namespaces", "A", false, "All claims of all namespaces.")
	cmd.Flags().BoolVar(&r.revoke, "revoke", false, "Remove the rules for every address.")
	return cmd
}

func (r *restriction) run(ctx context.Context, names []string) error {
	switch {
	case r.clouds == "" || len(r.to) == 0:
		return usage("--to and --clouds are required")
	case r.all != (len(names) == 0):
		return usage("name claims, or use -A")
	}
	for _, text := range r.to {
		network, err := wire.ParseNetwork(text)
		if err == nil && network.Bits() == 0 {
			err = fmt.Errorf("%s contains every address", text)
		}
		if err != nil {
			return usage("--to: %v", err)
		}
		r.networks = append(r.networks, network)
	}
	chosen, err := r.prepare(ctx, names)
	if err != nil {
		return fmt.Errorf("%w. %s", err, nothingChanged)
	}
	return r.change(ctx, chosen)
}

// prepare returns the chosen shares that every address may mount.
func (r *restriction) prepare(ctx context.Context, names []string) ([]*mount, error) {
	d := r.guest.driverIf(func(d driver) bool { return d.kind == choice.Manila })
	if err := r.pluginIsNew(ctx, *d); err != nil {
		return nil, err
	}
	if r.cluster = r.clusterID(ctx, *d); r.cluster == sharedID {
		return nil, errSharedID(*d)
	}
	r.readMounts(ctx, *d)
	if hidden := r.notVisible(); len(hidden) > 0 { // then nobody knows who uses the shares
		return nil, fmt.Errorf("you may not read %s", strings.Join(hidden, ", "))
	}
	login, err := r.cloud.login(ctx)
	if err == nil && login.State != OK {
		err = errors.New(login.Text)
	}
	if err = errors.Join(r.failed(), err); err != nil {
		return nil, err
	}
	if r.manila, err = shares.New(ctx, r.client); err != nil {
		return nil, err
	}
	var chosen []*mount
	for _, m := range r.mounts {
		named := r.all || m.claim.Namespace == r.namespace && slices.Contains(names, m.claim.Name)
		names = slices.DeleteFunc(names, func(name string) bool { return named && name == m.claim.Name })
		if !named {
			continue
		}
		isOpen, err := r.isOpen(ctx, m)
		switch kept := (keptError{}); {
		case r.all && errors.As(err, &kept):
			r.kept = append(r.kept, m.claim.String())
			fmt.Fprintln(r.Err, wrap("", fmt.Sprintf("Claim %s is left alone: %v", m.claim, err), 0))
		case err != nil:
			return nil, fmt.Errorf("the share of %s: %w", m.claim, err)
		case isOpen:
			chosen = append(chosen, m)
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("namespace %s has no claim %s with a share that Manila's driver created",
			r.namespace, strings.Join(names, ", "))
	}
	return chosen, nil
}

// pluginIsNew returns an error if the driver mounts shares only by the access rule that it created,
// as before v1.35. The images of OpenShift have no version: they belong to the operator's release.
func (r *restriction) pluginIsNew(ctx context.Context, d driver) error {
	const first = "1.35.0"
	nodes := find(ctx, r.guest, d.namespace, d.nodes[0], &appsv1.DaemonSet{})
	if nodes == nil {
		return cmp.Or(r.failed(), errors.New("the driver of Manila is not installed"))
	}
	for _, c := range nodes.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(c.Image, "@")
		found, err := version.ParseGeneric(image[strings.LastIndexByte(image, ':')+1:])
		if strings.Contains(image, "manila-csi-plugin") && err == nil &&
			found.LessThan(version.MustParseGeneric(first)) {
			return fmt.Errorf("%s runs manila-csi-plugin v%s, which mounts a share only by the access "+
				"rule that it created: update it to v%s or later", d.title, found, first)
		}
	}
	return nil
}

// readMounts reads the claims with shares, and the nodes of their pods.
func (r *restriction) readMounts(ctx context.Context, d driver) {
	of := map[client.ObjectKey]*mount{}
	visit(ctx, r.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		served, claim := source.Of(v), v.Spec.ClaimRef
		if served == nil || served.Driver != d.name || claim == nil {
			return
		}
		m := &mount{
			claim: client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name},
			share: cmp.Or(served.VolumeAttributes["shareID"], served.VolumeHandle),
		}
		if openstack.IsID(m.share) && v.Status.Phase == corev1.VolumeBound {
			of[m.claim], r.mounts = m, append(r.mounts, m)
		}
	})
	visit(ctx, r.guest, &corev1.PodList{}, func(pod *corev1.Pod) {
		for _, v := range pod.Spec.Volumes {
			m := of[client.ObjectKey{Namespace: pod.Namespace, Name: claimName(pod, v)}]
			if m == nil || pod.Spec.NodeName == "" || hasEnded(pod) {
				continue
			}
			m.using = append(m.using, pod.Spec.NodeName)
			if pod.Status.Phase == corev1.PodRunning {
				m.running = append(m.running, pod.Spec.NodeName)
			}
		}
	})
	slices.SortFunc(r.mounts, func(a, b *mount) int {
		return strings.Compare(a.claim.String(), b.claim.String())
	})
}

// keptError says why the rules of a share are not changed.
type keptError struct{ error }

// isOpen returns whether every address may mount a share. A keptError means that the rules belong
// to a fence, or to others: a PersistentVolume may name the share of another cluster.
func (r *restriction) isOpen(ctx context.Context, m *mount) (bool, error) {
	share, exists, err := r.manila.Find(ctx, m.share)
	switch {
	case err != nil:
		return false, err
	case !exists:
		return false, keptError{fmt.Errorf("Manila has no share %s in the project of %s", m.share,
			r.clouds)}
	case share.Metadata[shares.FenceKey] != "":
		return false, keptError{fmt.Errorf("a NetworkFence holds share %s: set its fenceState to "+
			"Unfenced, and wait until Fenced is False", m.share)}
	case share.Metadata[shares.ClusterKey] != r.cluster:
		return false, keptError{fmt.Errorf("the driver of this cluster did not create share %s, so "+
			"clients outside the cluster may use it: change its rules with openstack share access",
			m.share)}
	}
	m.rules, err = r.manila.Rules(ctx, m.share)
	isOpen := false
	for _, rule := range m.rules {
		if isForEverybody(rule) && (!isOpen || rule.Level == "rw") {
			isOpen, m.level = true, rule.Level
		}
	}
	return isOpen, err
}

func isForEverybody(rule shares.AccessRule) bool {
	return rule.Type == "ip" && isEverywhere(rule.To)
}

// change adds the rules, or removes those for every address, of all shares.
func (r *restriction) change(ctx context.Context, chosen []*mount) error {
	if r.revoke {
		if err := r.mayRevoke(ctx, chosen); err != nil {
			return fmt.Errorf("%w. %s", err, nothingChanged)
		}
	}
	for i, m := range chosen {
		do := r.grant
		if r.revoke {
			do = r.revokeFrom
		}
		if err := do(ctx, m); err != nil {
			return fmt.Errorf("the share of %s, after %d of %d: %w", m.claim, i, len(chosen), err)
		}
	}
	what := "the networks may mount the share of %s\n"
	if r.revoke {
		what = "only the networks and older rules let clients mount the share of %s\n"
	}
	for _, m := range chosen {
		err := r.until(ctx, "Manila has applied the rules of share "+m.share,
			func(ctx context.Context) (bool, error) { return r.isApplied(ctx, m) }, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, what, m.claim)
	}
	if len(chosen) == 0 && len(r.kept) == 0 {
		fmt.Fprintln(r.Out, "No share of the claims may be mounted by every address")
	} else if len(chosen) > 0 && !r.revoke {
		fmt.Fprintln(r.Out, wrap("", "Every address may still mount them: run the command with "+
			"--revoke. "+operator.Page("docs/manila.md#restrict-access-to-shares"), 0))
	}
	if len(r.kept) > 0 {
		return fmt.Errorf("claims are left alone: %s", diagnosis.List(r.kept))
	}
	return nil
}
