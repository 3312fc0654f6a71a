//go:build integration && long

package integration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects returns the objects of the cluster, as `resource namespace/name`, except those of
// Kubernetes itself, those that it creates for others, and claims.
func (k *plainKubernetes) objects() []string {
	k.t.Helper()
	ignored := []string{
		"events", "endpoints", "endpointslices", "ipaddresses", "controllerrevisions", "replicasets",
		"pods", "apiservices", "componentstatuses", "persistentvolumeclaims",
	}
	lists, err := k.cluster.kube.Discovery().ServerPreferredResources()
	k.must(err)
	var found []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		k.must(err)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(ignored, r.Name) {
				continue
			}
			items, err := k.cluster.dynamic.Resource(version.WithResource(r.Name)).
				List(k.ctx(), metav1.ListOptions{})
			k.must(err)
			for _, one := range items.Items {
				if strings.HasPrefix(one.GetNamespace(), "kube-") || one.GetNamespace() == "default" {
					continue
				}
				found = append(found, fmt.Sprintf("%s %s/%s", r.Name, one.GetNamespace(), one.GetName()))
			}
		}
	}
	slices.Sort(found)
	return found
}

// leaves removes one driver after the other by the commands of the guide, and what both use. No
// object of the first is left, and the second stays complete. In the end the cluster contains what
// it contained before, and what the user created.
func (k *plainKubernetes) leaves(before []string) {
	k.t.Helper()
	k.run("kubectl delete volumesnapshots,pvc --all --wait=false")
	all := k.objects()
	k.follow("Remove Manila")
	k.mustDiffer(all, k.objects(), "manila")
	k.follow("Remove Cinder")
	k.follow("Remove what both drivers use")
	after := slices.DeleteFunc(k.objects(), func(object string) bool {
		return strings.Contains(object, " monitoring/") || object == "namespaces /monitoring"
	})
	if diff := cmp.Diff(before, after); diff != "" {
		k.t.Errorf("objects before the installation and after the removal (-before +after):\n%s", diff)
	}
}

// mustDiffer checks that exactly the objects of a driver are gone. The names of those of the other
// driver do not contain its name.
func (k *plainKubernetes) mustDiffer(before, after []string, driver string) {
	k.t.Helper()
	of := func(object string) bool { return strings.Contains(object, driver) }
	for _, object := range before {
		if gone := !slices.Contains(after, object); gone != of(object) {
			k.t.Errorf("after the removal of %s, %s is gone: %v", driver, object, gone)
		}
	}
}
