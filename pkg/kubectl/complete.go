package kubectl

import (
	"context"
	"maps"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"
)

// complete returns the kinds, and after KIND/ the names of the objects in the namespace.
func (o *options) complete(cmd *cobra.Command, args []string, word string) (
	[]string, cobra.ShellCompDirective,
) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, named := strings.Cut(word, "/")
	if !named {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(explainers())) {
			kinds = append(kinds, kind+"/")
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var names []string
	run := o.run(Streams{}, func(ctx context.Context, s *session, _ []string) error {
		var err error
		names, err = s.names(ctx, kind)
		return err
	})
	if err := run(cmd, nil); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// names returns KIND/NAME of each object.
func (s *session) names(ctx context.Context, kind string) ([]string, error) {
	list := map[string]client.ObjectList{
		"pvc": &corev1.PersistentVolumeClaimList{}, "pod": &corev1.PodList{},
		"pv":             &corev1.PersistentVolumeList{},
		"volumesnapshot": &snapshotv1.VolumeSnapshotList{}, "deployment": &appsv1.DeploymentList{},
		"daemonset": &appsv1.DaemonSetList{}, "clustercsidriver": &opv1.ClusterCSIDriverList{},
	}[kind]
	if list == nil {
		return nil, nil
	}
	var options []client.ListOption
	if kind != "clustercsidriver" {
		options = append(options, client.InNamespace(s.namespace))
	}
	if err := s.guest.list(ctx, list, options...); err != nil {
		return nil, err
	}
	var names []string
	err := meta.EachListItem(list, func(object runtime.Object) error {
		one, err := meta.Accessor(object)
		if err == nil {
			names = append(names, kind+"/"+one.GetName())
		}
		return err
	})
	return names, err
}
