//go:build monitoring

package monitoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// patience bounds each wait, on a busy machine.
const patience = 5 * time.Minute

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
		ShareTypes: []simulator.ShareType{{Name: "default"}},
		Report:     func(err error) { t.Errorf("OpenStack: %v", err) },
	})
	must(t, err)
	t.Cleanup(func() { must(t, cloud.Close()) })
	must(t, cloud.Start(context.WithoutCancel(t.Context())))
	expiry := time.Now().AddDate(0, 0, 5)
	cloud.RotateCredentials(simulator.Rotation{ApplicationCredentialExpiry: expiry})
	return expiringCloud{cloud}
}

// site is a devcluster with both operators.
type site struct {
	*testing.T

	folder    string
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	operators []fixtures.Operator
	dir       paths.Dir
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
	s.kube, err = kubernetes.NewForConfig(environment.Config())
	must(t, err)
	s.dynamic, err = dynamic.NewForConfig(environment.Config())
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

// serviceMonitor contains the fields of a ServiceMonitor from which Prometheus Operator makes
// targets.
type serviceMonitor struct {
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

// target returns what Prometheus Operator makes of an endpoint of a ServiceMonitor, with another
// address.
func (s *site) target(namespace, monitor, port, address string) target {
	s.Helper()
	found := s.awaitMonitor(namespace, monitor)
	selector, err := metav1.LabelSelectorAsSelector(&found.Spec.Selector)
	must(s.T, err)
	var service string
	s.eventually("ServiceMonitor "+monitor+" selects a Service", func(ctx context.Context) error {
		services, err := s.kube.CoreV1().Services(namespace).
			List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err == nil && len(services.Items) != 1 {
			err = fmt.Errorf("it selects %d Services, want one", len(services.Items))
		}
		if err == nil {
			service = services.Items[0].Name
		}
		return err
	})
	for _, endpoint := range found.Spec.Endpoints {
		if endpoint.Port == port {
			return target{
				address: address, path: endpoint.Path, scheme: endpoint.Scheme,
				honorLabels: endpoint.HonorLabels,
				labels: map[string]string{
					"namespace": namespace, "service": service, "job": service, "endpoint": port,
				},
			}
		}
	}
	s.Fatalf("ServiceMonitor %s has no endpoint %s", monitor, port)
	return target{}
}

// awaitMonitor waits until an operator has created a ServiceMonitor.
func (s *site) awaitMonitor(namespace, name string) serviceMonitor {
	s.Helper()
	monitors := s.dynamic.Resource(schema.GroupVersionResource{
		Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors",
	}).Namespace(namespace)
	var object *unstructured.Unstructured
	s.eventually("ServiceMonitor "+name+" exists", func(ctx context.Context) (err error) {
		object, err = monitors.Get(ctx, name, metav1.GetOptions{})
		return err
	})
	var monitor serviceMonitor
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	must(s.T, convert(object.Object, &monitor))
	return monitor
}

func (s *site) eventually(what string, check func(context.Context) error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		s.Fatalf("waiting until %s: %v", what, last)
	}
}

// token returns the token of the ServiceAccount with which OpenShift scrapes.
func (s *site) token() string {
	s.Helper()
	accounts := s.kube.CoreV1().ServiceAccounts("openshift-monitoring")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus-k8s"}}
	_, err := accounts.Create(s.Context(), account, metav1.CreateOptions{})
	must(s.T, client.IgnoreAlreadyExists(err))
	token, err := accounts.CreateToken(s.Context(), account.Name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	must(s.T, err)
	return token.Status.Token
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
	const class = "csi-manila-default"
	s.eventually("the StorageClass exists", func(ctx context.Context) error {
		_, err := s.kube.StorageV1().StorageClasses().Get(ctx, class, metav1.GetOptions{})
		return err
	})
	s.createClaim(class)
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
