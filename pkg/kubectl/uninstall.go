package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// The labels of all objects of an installation, and the value of the first.
const (
	partLabel, instanceLabel = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
	partOf                   = "openstack-csi"
)

// uninstallation deletes what an installation by files has made.
type uninstallation struct {
	*session

	dryRun bool
	// of are the drivers to remove. all means also what drivers share.
	of  []driver
	all bool
	// known are the objects that belong to the installation, with the label of their driver.
	known map[string]string
	// namespaces are those of the objects of the installation.
	namespaces []string
	// claims are the numbers of claims by StorageClass.
	claims map[string]int
	// secrets are those that PersistentVolumes of the drivers name.
	secrets secretCounts
	// unread are objects that no operator reads, by their resource.
	unread map[string]string
	// deleted are the objects that are deleted already.
	deleted []string
	// gone says which owners certainly do not exist any more.
	gone map[owner]bool
}

func newUninstallCommand(o *options) *cobra.Command {
	u := &uninstallation{
		claims: map[string]int{}, secrets: secretCounts{}, unread: map[string]string{},
		gone: map[owner]bool{},
	}
	cmd := &cobra.Command{
		Use:   "uninstall [DRIVER]",
		Short: "Delete operators and drivers, unless volumes are in use",
		Long: "Delete what an installation on Kubernetes has made, of one driver or everything, unless " +
			"volumes are in use or fences hold. Volumes, claims, snapshots and what you created yourself " +
			"stay. Run it again to continue. docs/kubectl.md lists the permissions.",
		Example: "  kubectl openstack-csi uninstall --dry-run\n" +
			"  kubectl openstack-csi uninstall manila",
		Args:      atMost(1),
		ValidArgs: []string{"cinder", "manila"},
		RunE: o.run(func(ctx context.Context, s *session, args []string) error {
			u.session, s.again = s, "to continue"
			return u.run(ctx, args)
		}),
	}
	addTimeoutTo(cmd.Flags(), 10*time.Minute)
	cmd.Flags().BoolVar(&u.dryRun, "dry-run", false,
		"Print what would be deleted, and delete nothing.")
	return cmd
}

func (u *uninstallation) run(ctx context.Context, args []string) error {
	found, err := u.prepare(ctx, args)
	if err != nil {
		return fmt.Errorf("%w. %s", err, nothingChanged)
	}
	if found == 0 {
		fmt.Fprintln(u.Out, "The cluster contains nothing to delete")
		return nil
	}
	for i, kind := range slices.Insert(removedKinds(), 0, deployments()) {
		objects := slices.DeleteFunc(u.objects(ctx, kind), func(o object) bool {
			return kind == deployments() && u.isOperator(o.Name) != (i == 0) || u.isKept(ctx, o)
		})
		isNeeded := i > 0 && slices.Contains(neededKinds(), kind.Kind) // by volumes
		if isNeeded && len(objects) > 0 && !u.dryRun {
			if err := u.unused(ctx); err != nil { // a pod may have started meanwhile
				return err
			}
		}
		if err := u.remove(ctx, objects); err != nil {
			return err
		}
	}
	u.nameLogins(ctx)
	fmt.Fprintln(u.Out, wrap("", "PersistentVolumes, claims, snapshots and Secrets that you created "+
		"stay, with what is in OpenStack: install the driver again to use or delete it", 0))
	return nil
}

// prepare returns the number of objects to delete, or why none is deleted.
func (u *uninstallation) prepare(ctx context.Context, args []string) (found int, err error) {
	if u.guest.onOpenShift() {
		if find(ctx, u.guest, "", "cluster", &configv1.Infrastructure{}) == nil {
			return 0, cmp.Or(u.failed(), errors.New("you may not read Infrastructures, which tell whether "+
				"this is OpenShift"))
		}
		return 0, errors.New("this is OpenShift, whose cluster-storage-operator owns the drivers. For " +
			"OLM see docs/olm.md")
	}
	if u.of, err = u.guest.choose(args); err != nil {
		return 0, err
	}
	u.all = len(args) == 0
	if err = cmp.Or(u.second(), u.learn(ctx)); err != nil {
		return 0, err
	}
	needed, managed := false, map[undoing][]string{}
	for _, d := range u.of {
		u.namespaces = append(u.namespaces, d.namespace)
		operator := &object{TypeMeta: metav1.TypeMeta{Kind: deployment, APIVersion: "apps/v1"}}
		if o := find(ctx, u.guest, d.operatorIn, d.operator, operator); o != nil {
			if o.Labels[partLabel] == "" { // OLM does not set our labels
				by := u.undoing(ctx, o)
				managed[by] = append(managed[by], deployment+" "+d.operator)
			}
		}
	}
	for _, kind := range removedKinds() {
		for _, o := range u.objects(ctx, kind) {
			found++
			needed = needed || slices.Contains(neededKinds(), kind.Kind)
			if o.Labels[instanceLabel] != "" && !strings.HasPrefix(o.Name, readsSecret) {
				u.namespaces = append(u.namespaces, o.Namespace)
			}
			by := u.undoing(ctx, &o)
			managed[by] = append(managed[by], o.Kind+" "+o.Name)
		}
	}
	u.count(ctx)
	if needed {
		err = u.unused(ctx)
	}
	byCommand := func(a, b undoing) int { return cmp.Compare(a.end, b.end) }
	for _, by := range slices.SortedFunc(maps.Keys(managed), byCommand) {
		if by.end != "" {
			err = by.recreated(managed[by])
		}
	}
	if hidden := u.notVisible(); len(hidden) > 0 {
		err = fmt.Errorf("you may not read %s", strings.Join(hidden, ", "))
	}
	return found, cmp.Or(u.failed(), err)
}

type object = metav1.PartialObjectMetadata

// objects returns those of a kind that belong to the installation. Some have no label.
func (u *uninstallation) objects(ctx context.Context, kind schema.GroupVersionKind) (all []object) {
	labels, isOwn := client.MatchingLabels{partLabel: partOf}, slices.Contains(ownKinds(), kind)
	if !u.all {
		labels[instanceLabel] = u.of[0].instance()
	}
	if kind.Kind == "Lease" || isOwn {
		labels = nil
	}
	visit(ctx, u.guest, listOf(kind), func(o *object) {
		if o.SetGroupVersionKind(kind); u.owns(o) {
			all = append(all, *o)
		} else if isOwn {
			u.unread[strings.ToLower(kind.Kind)+"s"] = o.Kind + " " + o.Name
		}
	}, labels)
	return all
}

func listOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// isOperator returns whether a Deployment is the one of an operator, or that of CSI-Addons.
func (u *uninstallation) isOperator(name string) bool {
	return u.all && name == "csi-addons-controller-manager" ||
		slices.ContainsFunc(u.of, func(d driver) bool { return d.operator == name })
}

// unused returns an error that names what uses volumes of the drivers, and the fences that hold.
func (u *uninstallation) unused(ctx context.Context) error {
	used, served := make([][]string, 3), map[string]bool{}
	serves := func(name string) bool {
		served[name] = slices.ContainsFunc(u.of, func(d driver) bool { return d.name == name })
		return served[name]
	}
	_, used[0] = u.volumesOf(ctx, serves)
	visit(ctx, u.guest, &storagev1.VolumeAttachmentList{}, func(a *storagev1.VolumeAttachment) {
		if serves(a.Spec.Attacher) {
			used[1] = append(used[1], a.Name+" to node "+a.Spec.NodeName)
		}
	})
	visit(ctx, u.guest, &v1alpha1.NetworkFenceList{}, func(f *v1alpha1.NetworkFence) {
		c := ptr.Deref(meta.FindStatusCondition(f.Status.Conditions, "Fenced"), metav1.Condition{})
		ended := f.Spec.FenceState == v1alpha1.Unfenced && c.Reason == string(v1alpha1.Unfenced)
		if by := u.fencedBy(ctx, f); !ended && (by == "" || serves(by)) {
			used[2] = append(used[2], f.Name)
		}
	})
	var all []string
	for i, text := range []string{
		"volumes are in use: %s. Delete the pods, and what creates them; the claims can stay",
		"VolumeAttachments exist: %s. Without a pod that uses the volume, wait until it is detached. " +
			"If that does not end, run kubectl openstack-csi why volumeattachment",
		"NetworkFences hold: %s. Set fenceState to Unfenced, and wait until Fenced is False",
	} {
		if len(used[i]) > 0 {
			all = append(all, fmt.Sprintf(text, diagnosis.List(used[i])))
		}
	}
	for i := 0; len(all) > 0 && i < len(u.of); i++ {
		if gone := u.uninstalled(ctx, u.of[i].name); served[u.of[i].name] && gone != nil {
			all = append(all, "Nobody serves them: "+gone[0].sentence(maxSentence))
		}
	}
	if u.failed() == nil && len(all) > 0 {
		return errors.New(strings.Join(slices.Compact(all), ". "))
	}
	return u.failed()
}

// remove deletes objects of a kind, and waits until they, and the pods of workloads, are gone.
func (u *uninstallation) remove(ctx context.Context, objects []object) error {
	if len(objects) == 0 || u.failed() != nil {
		return u.failed()
	}
	verb := map[bool]string{true: "Would delete ", false: "Deleting "}[u.dryRun]
	var names []string
	for _, o := range objects {
		names = append(names, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	}
	fmt.Fprintln(u.Out, wrap("", verb+objects[0].Kind+" "+strings.Join(names, ", "), 0))
	if u.dryRun {
		return nil
	}
	policy := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if objects[0].GroupVersionKind().Group == deployments().Group {
		policy = client.PropagationPolicy(metav1.DeletePropagationForeground) // pods first
	}
	for _, o := range objects {
		err := u.guest.Delete(ctx, &o, client.Preconditions{UID: &o.UID}, policy)
		if client.IgnoreNotFound(err) != nil {
			return u.stopped(o, err)
		}
		u.deleted = append(u.deleted, o.Kind+" "+o.Name)
	}
	what := objects[0].Kind + " " + diagnosis.List(names) + " is gone"
	return u.until(ctx, what, func(ctx context.Context) (bool, error) {
		for _, o := range objects {
			now := &object{TypeMeta: o.TypeMeta}
			err := u.guest.Get(ctx, client.ObjectKeyFromObject(&o), now)
			if client.IgnoreNotFound(err) != nil || err == nil && now.UID == o.UID {
				return false, client.IgnoreNotFound(err)
			}
		}
		return true, nil
	}, nil)
}
