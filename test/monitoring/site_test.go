//go:build monitoring

package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// patience bounds each wait, on a busy machine.
	patience = 5 * time.Minute
	// stopGrace is how long a program may take to stop.
	stopGrace = 30 * time.Second
)

// expiringCloud is an OpenStack whose users log in with an application credential that expires.
type expiringCloud struct{ *simulator.Simulator }

// CloudsYAML returns a clouds.yaml with the application credential.
func (c expiringCloud) CloudsYAML(options simulator.Clouds) []byte {
	options.Auth = simulator.ApplicationCredential
	return c.Simulator.CloudsYAML(options)
}

// newCloud starts OpenStack.
func newCloud(t *testing.T) expiringCloud {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{
		ShareTypes:   []simulator.ShareType{{Name: "default"}},
		VolumeQuotas: []simulator.Quota{{Resource: "volumes", Limit: 10}},
		ShareQuotas:  []simulator.Quota{{Resource: "shares", Limit: 10}},
		Report:       func(err error) { t.Errorf("OpenStack: %v", err) },
	})
	must(t, err)
	t.Cleanup(func() { must(t, cloud.Close()) })
	must(t, cloud.Start(context.WithoutCancel(t.Context())))
	expiry := time.Now().AddDate(0, 0, 5)
	cloud.RotateCredentials(simulator.Rotation{ApplicationCredentialExpiry: expiry})
	return expiringCloud{cloud}
}

// site is a devcluster with both operators, and a Prometheus.
type site struct {
	*testing.T

	folder    string
	client    client.Client
	operators []fixtures.Operator
	dir       paths.Dir
	url       string // of Prometheus
}

// newSite starts the cluster and the operators, which end with the test.
func newSite(t *testing.T) *site {
	t.Helper()
	log.SetLogger(logr.Discard()) // the messages of envtest repeat errors
	operators, err := fixtures.Operators([]string{"cinder", "manila"})
	must(t, err)
	s := &site{T: t, folder: t.TempDir()}
	s.dir = paths.Dir(filepath.Join(s.folder, "cluster"))
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: s.dir, Binaries: os.Getenv("K8S_BIN_DIR"), Operators: operators, Cloud: newCloud(t),
		Progress: t.Output(),
	})
	must(t, err)
	t.Cleanup(c.Stop)
	environment := c.Environments()[0]
	s.operators = environment.Operators
	s.client, err = client.New(environment.Config(), client.Options{})
	must(t, err)
	for _, o := range environment.Operators {
		runner := operator.Runner{
			Operator: o, Bin: os.Getenv("BIN_DIR"), Dir: s.dir, Env: o.Env(),
			Progress: t.Output(),
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(t.Context()) }()
		t.Cleanup(func() { must(t, <-ended) })
	}
	return s
}

// target returns the configuration of Prometheus that Prometheus Operator makes of an endpoint of a
// ServiceMonitor, with another address.
func (s *site) target(namespace, name, port, address string) map[string]any {
	s.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor",
	})
	services := &corev1.ServiceList{}
	var monitor struct {
		Spec struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port        string `json:"port"`
				Path        string `json:"path"`
				Scheme      string `json:"scheme"`
				HonorLabels bool   `json:"honorLabels"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	s.eventually("ServiceMonitor "+name+" selects a Service", func(ctx context.Context) error {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if err != nil {
			return err
		}
		must(s.T, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &monitor))
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		must(s.T, err)
		err = s.client.List(ctx, services, client.InNamespace(namespace),
			client.MatchingLabelsSelector{Selector: selector})
		if err == nil && len(services.Items) != 1 {
			err = fmt.Errorf("it selects %d Services, want one", len(services.Items))
		}
		return err
	})
	for _, endpoint := range monitor.Spec.Endpoints {
		if endpoint.Port == port {
			service := services.Items[0].Name
			return map[string]any{
				"job_name": service, "metrics_path": endpoint.Path, "scheme": endpoint.Scheme,
				"honor_labels": endpoint.HonorLabels,
				"tls_config":   map[string]any{"insecure_skip_verify": true},
				"static_configs": []any{map[string]any{
					"targets": []string{address}, "labels": map[string]string{
						"namespace": namespace, "service": service, "job": service, "endpoint": port,
					},
				}},
			}
		}
	}
	s.Fatalf("ServiceMonitor %s has no endpoint %s", name, port)
	return nil
}

func (s *site) eventually(what string, check func(context.Context) error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	assert.Assert(s, err == nil, "waiting until %s: %v", what, last)
}

// token returns the token of the ServiceAccount with which OpenShift scrapes.
func (s *site) token() string {
	s.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-monitoring", Name: "prometheus-k8s"},
	}
	must(s.T, client.IgnoreAlreadyExists(s.client.Create(s.Context(), account)))
	request := &authenticationv1.TokenRequest{}
	must(s.T, s.client.SubResource("token").Create(s.Context(), account, request))
	return request.Status.Token
}

// startProvisioner starts csi-provisioner with a driver of Manila that creates no volume, and
// creates a claim. It returns the address of the metrics.
func (s *site) startProvisioner() string {
	s.Helper()
	driver := fakedriver.Serve(s.T, answer)
	address := freeAddress(s.T)
	start(s.T, filepath.Join(os.Getenv("E2E_BIN_DIR"), "csi-provisioner"),
		filepath.Join(s.folder, "provisioner.log"), "--csi-address="+driver.Socket,
		"--kubeconfig="+s.dir.AdminKubeconfig(), "--http-endpoint="+address, "--leader-election",
		"--leader-election-namespace=default")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
			StorageClassName: ptr.To("csi-manila-default"),
		},
	}
	must(s.T, s.client.Create(s.Context(), claim))
	return address
}

// answer is what the driver answers.
func answer(_ context.Context, method string) (proto.Message, error) {
	switch method {
	case "GetPluginInfo":
		return &csi.GetPluginInfoResponse{Name: "manila.csi.openstack.org", VendorVersion: "1"}, nil
	case "GetPluginCapabilities":
		return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
				Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
			}},
		}}}, nil
	case "ControllerGetCapabilities":
		return &csi.ControllerGetCapabilitiesResponse{
			Capabilities: []*csi.ControllerServiceCapability{{
				Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{
					Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
				}},
			}},
		}, nil
	case "CreateVolume":
		return nil, errors.New("the quota is exhausted")
	}
	return nil, nil
}

// startPrometheus starts Debian's Prometheus with the alerts. It runs until the test ends.
func (s *site) startPrometheus(rules string, scrapes []map[string]any) {
	s.Helper()
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules}, "scrape_configs": scrapes,
	})
	must(s.T, err)
	file := filepath.Join(s.folder, "prometheus.yaml")
	must(s.T, paths.WriteFile(file, config))
	address := freeAddress(s.T)
	start(s.T, "/usr/bin/prometheus", filepath.Join(s.folder, "prometheus.log"),
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(s.folder, "tsdb"),
		"--web.listen-address="+address)
	s.url = "http://" + address
}

// start starts a program, which ends with the test.
func start(t *testing.T, program, log string, args ...string) {
	t.Helper()
	p, err := process.Start(process.Options{
		Name: filepath.Base(program), Path: program, Args: args, Log: log,
	})
	must(t, err)
	t.Cleanup(func() {
		if !p.Running() {
			t.Error(p.ExitError())
		}
		p.Stop(stopGrace)
	})
}

// freeAddress returns an address of this machine that no program uses now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	return listener.Addr().String()
}

// get decodes the data in an answer of the API of Prometheus.
func (s *site) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err == nil && answer.Error != "" {
		err = fmt.Errorf("%s: %s", path, answer.Error)
	}
	return err
}

// await waits until an expression has data.
func (s *site) await(expression string) {
	s.Helper()
	s.eventually(expression+" has data", func(ctx context.Context) error {
		var data struct{ Result []any }
		err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &data)
		if err == nil && len(data.Result) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
}

// mustEvaluate checks that Prometheus evaluates all rules without an error.
func (s *site) mustEvaluate(rules int) {
	s.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	must(s.T, s.get(s.Context(), "/api/v1/rules", &data))
	assert.Assert(s, len(data.Groups) == 1 && len(data.Groups[0].Rules) == rules,
		"Prometheus has the rules %v, want %d", data.Groups, rules)
	for _, r := range data.Groups[0].Rules {
		assert.Check(s, r.Health == "ok", "evaluating %s: %s %s", r.Name, r.Health, r.LastError)
	}
}
