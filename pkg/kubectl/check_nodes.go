package kubectl

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// minKubernetes is the oldest version of Kubernetes that the drivers support.
const minKubernetes = "1.30.0"

// nodeLinks returns whether the kubelets are new enough, and the nodes are instances of OpenStack.
func nodeLinks(nodes []corev1.Node) []Link {
	if len(nodes) == 0 {
		return only(NotVisible, "the nodes: the version of Kubernetes, and whether they are instances "+
			"of OpenStack, are not known")
	}
	var old, foreign, unknown []string
	least := version.MustParseGeneric(minKubernetes)
	for _, n := range nodes {
		kubelet, err := version.ParseGeneric(n.Status.NodeInfo.KubeletVersion)
		if err == nil && kubelet.LessThan(least) {
			old = append(old, n.Name)
		}
		if isForeign, known := foreignTo(n.Spec.ProviderID); !known {
			unknown = append(unknown, n.Name)
		} else if isForeign {
			foreign = append(foreign, n.Name+" ("+n.Spec.ProviderID+")")
		}
	}
	links := only(OK, "all kubelets are v%s or later", minKubernetes)
	if len(old) > 0 {
		links = only(Problem, "the kubelet of node %s is older than v%s, the oldest version that the "+
			"drivers support. Upgrade Kubernetes", diagnosis.List(old), minKubernetes)
	}
	return append(links, instances(len(nodes), foreign, unknown))
}

// instances returns whether nodes are instances of OpenStack, as their providerIDs say.
func instances(all int, foreign, unknown []string) Link {
	const use = "Cinder attaches no volume there; shares of Manila work if the node reaches their " +
		"network"
	switch {
	case len(foreign) == all:
		return linkf(Problem, "no node is an instance of OpenStack: the providerID of %s names another "+
			"cloud. %s", diagnosis.List(foreign), use)
	case len(foreign) > 0:
		return linkf(Warning, "node %s is no instance of OpenStack. %s", diagnosis.List(foreign), use)
	case len(unknown) > 0:
		return linkf(NotVisible, "whether node %s is an instance of OpenStack: it has no providerID, "+
			"which OpenStack's cloud controller manager sets. If it is none, %s", diagnosis.List(unknown),
			use)
	}
	return linkf(OK, "all %d nodes are instances of OpenStack", all)
}

// foreignTo returns whether the providerID of a node names another cloud than OpenStack, if any.
func foreignTo(providerID string) (isForeign, known bool) {
	cloud, _, known := strings.Cut(providerID, "://")
	return known && cloud != "openstack", known
}
