package generator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serviceMonitor contains the fields of monitoring.coreos.com/v1 that layers use. It replaces a
// dependency on the library of the Prometheus operator; add a field to use it in a layer.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		JobLabel  string               `json:"jobLabel"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			HonorLabels     bool   `json:"honorLabels"`
			Path            string `json:"path"`
			Scheme          string `json:"scheme"`
			Interval        string `json:"interval"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				CAFile     string `json:"caFile"`
				ServerName string `json:"serverName"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object with a shallow copy.
func (m *serviceMonitor) DeepCopyObject() runtime.Object {
	copied := *m
	return &copied
}

func addServiceMonitor(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("ServiceMonitor"), &serviceMonitor{})
	return nil
}
