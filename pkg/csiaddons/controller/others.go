package controller

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

const (
	// openShiftGroup is an API group that only OpenShift has. Only administrators install groups.
	openShiftGroup = "config.openshift.io"
	// storageNamespace is the namespace of OpenShift Data Foundation, which contains a controller of
	// CSI-Addons. On OpenShift only administrators create namespaces whose names start with
	// openshift-.
	storageNamespace = "openshift-storage"
)

// otherNamespaces returns the namespaces in which another controller of CSI-Addons counts. All of
// them belong to administrators: whoever may create a Deployment there can stop this controller.
func otherNamespaces(cluster discovery.ServerGroupsInterface, s *settings.Settings,
) (map[string]cache.Config, error) {
	found := map[string]cache.Config{s.Namespace: {}}
	for _, namespace := range s.OtherNamespaces {
		found[namespace] = cache.Config{}
	}
	groups, err := cluster.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("reading the API groups of the cluster: %w", err)
	}
	if slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool {
		return group.Name == openShiftGroup
	}) {
		found[storageNamespace] = cache.Config{}
	}
	return found, nil
}
