//go:build integration

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// fake is what an operator leaves when all went well.
type fake struct {
	driver                           string // also the name of the ClusterCSIDriver
	namespace, deployment, daemonSet string
	classes                          map[string]string // share types by StorageClass
}

// The programs that `run` starts. The test binary plays them when it is called by
// one of these names.
const (
	fakeManila = "manila-operator"
	fakeCinder = "cinder-operator"
)

func fakes() map[string]fake {
	return map[string]fake{
		fakeManila: {
			driver: "manila.csi.openstack.org", namespace: "openshift-manila-csi-driver",
			deployment: "openstack-manila-csi-controllerplugin", daemonSet: "openstack-manila-csi-nodeplugin",
			classes: map[string]string{"csi-manila-default": "default", "csi-manila-fast": "fast"},
		},
		fakeCinder: {
			driver: "cinder.csi.openstack.org", namespace: "openshift-cluster-csi-drivers",
			deployment: "openstack-cinder-csi-driver-controller", daemonSet: "openstack-cinder-csi-driver-node",
			classes: map[string]string{"standard-csi": ""},
		},
	}
}

// fakeDeployment and fakeDaemonSet are filled with a namespace, a name and an image.
const fakeDeployment = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      nodeSelector: {node-role.kubernetes.io/master: ""}
      tolerations: [{operator: Exists}]
      containers: [{name: csi-driver, image: "%[3]s"}]
`

const fakeDaemonSet = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: csi-driver, image: "%[3]s"}]
`

const fakeClass = `---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %s}
provisioner: %s
parameters: {type: %q}
`

// served is what the driver has in the cluster with its nodes.
func (f fake) served() string {
	text := fmt.Sprintf(fakeDaemonSet, f.namespace, f.daemonSet, os.Getenv("DRIVER_IMAGE"))
	for name, shareType := range f.classes {
		text += fmt.Sprintf(fakeClass, name, f.driver, shareType)
	}
	return text
}

// play creates the objects with the rights of the service account. In a hosted
// control plane there is another kubeconfig for what is in the guest.
func (f fake) play(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for _, file := range []string{argument(args, "--config="), os.Getenv("OS_CLIENT_CONFIG_FILE")} {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	control, target := argument(args, "--kubeconfig="), argument(args, "--guest-kubeconfig=")
	namespace, image := argument(args, "--namespace="), os.Getenv("DRIVER_CONTROL_PLANE_IMAGE")
	if target == "" {
		target, namespace, image = control, f.namespace, os.Getenv("DRIVER_IMAGE")
	}
	if _, err := writeAll(ctx, control, fmt.Sprintf(fakeDeployment, namespace, f.deployment, image)); err != nil {
		return err
	}
	writer, err := writeAll(ctx, target, f.served())
	if err != nil {
		return err
	}
	if err := f.reportAvailable(ctx, writer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func writeAll(ctx context.Context, kubeconfig, documents string) (fixtures.Writer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	writer, err := fixtures.NewWriter(config)
	if err != nil {
		return nil, err
	}
	for _, document := range strings.Split(documents, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := writer.Write(ctx, object); err != nil {
			return nil, err
		}
	}
	return writer, nil
}

func (f fake) reportAvailable(ctx context.Context, w fixtures.Writer) error {
	return w.Write(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.openshift.io/v1",
		"kind":       "ClusterCSIDriver",
		"metadata":   map[string]any{"name": f.driver},
		"spec":       map[string]any{"managementState": "Managed"},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "FakeAvailable", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}},
	}})
}

func argument(args []string, name string) string {
	for _, arg := range args {
		if value, found := strings.CutPrefix(arg, name); found {
			return value
		}
	}
	return ""
}

func playFakeOperator(f fake, args []string) int {
	if err := f.play(args); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
