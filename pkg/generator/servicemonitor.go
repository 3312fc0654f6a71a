package generator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serviceMonitor contains the fields of monitoring.coreos.com/v1 that layers may use. It replaces a
// dependency on the library of the Prometheus operator.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		JobLabel          string               `json:"jobLabel"`
		TargetLabels      []string             `json:"targetLabels"`
		PodTargetLabels   []string             `json:"podTargetLabels"`
		SampleLimit       *uint64              `json:"sampleLimit"`
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector *monitoredNamespaces `json:"namespaceSelector"`
		Endpoints         []monitoredEndpoint  `json:"endpoints"`
	} `json:"spec"`
}

type monitoredNamespaces struct {
	Any        bool     `json:"any"`
	MatchNames []string `json:"matchNames"`
}

type monitoredEndpoint struct {
	Port              string              `json:"port"`
	TargetPort        *intstr.IntOrString `json:"targetPort"`
	Path              string              `json:"path"`
	Scheme            string              `json:"scheme"`
	Params            map[string][]string `json:"params"`
	Interval          string              `json:"interval"`
	ScrapeTimeout     string              `json:"scrapeTimeout"`
	BearerTokenFile   string              `json:"bearerTokenFile"`
	HonorLabels       bool                `json:"honorLabels"`
	TLSConfig         *monitorTLS         `json:"tlsConfig"`
	Relabelings       []relabeling        `json:"relabelings"`
	MetricRelabelings []relabeling        `json:"metricRelabelings"`
}

type monitorTLS struct {
	CAFile             string `json:"caFile"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	ServerName         string `json:"serverName"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
}

type relabeling struct {
	SourceLabels []string `json:"sourceLabels"`
	Separator    *string  `json:"separator"`
	TargetLabel  string   `json:"targetLabel"`
	Regex        string   `json:"regex"`
	Modulus      uint64   `json:"modulus"`
	Replacement  *string  `json:"replacement"`
	Action       string   `json:"action"`
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
