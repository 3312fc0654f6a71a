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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	of := map[string]schema.GroupVersionKind{
		"pvc":              corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"),
		"pv":               corev1.SchemeGroupVersion.WithKind("PersistentVolumeList"),
		"pod":              corev1.SchemeGroupVersion.WithKind("PodList"),
		"volumesnapshot":   snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotList"),
		"deployment":       appsv1.SchemeGroupVersion.WithKind("DeploymentList"),
		"daemonset":        appsv1.SchemeGroupVersion.WithKind("DaemonSetList"),
		"clustercsidriver": opv1.GroupVersion.WithKind("ClusterCSIDriverList"),
	}[kind]
	if of.Empty() {
		return nil, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(of)
	s.guest.read(ctx, list, client.InNamespace(s.namespace))
	var names []string
	for _, one := range list.Items {
		names = append(names, kind+"/"+one.Name)
	}
	return names, s.failed()
}
