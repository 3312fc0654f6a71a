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

	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
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

// fakeObjects are filled with a namespace, two names and an image.
const fakeObjects = `
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
      containers: [{name: csi-driver, image: "%[4]s"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[3]s, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: %[3]s}}
  template:
    metadata: {labels: {app: %[3]s}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: csi-driver, image: "%[4]s"}]
`

const fakeClass = `---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %s}
provisioner: %s
parameters: {type: %q}
`

// manifests are in the order of creation.
func (f fake) manifests(image string) string {
	text := fmt.Sprintf(fakeObjects, f.namespace, f.deployment, f.daemonSet, image)
	for name, shareType := range f.classes {
		text += fmt.Sprintf(fakeClass, name, f.driver, shareType)
	}
	return text
}

// play creates the objects with the rights of the service account.
func (f fake) play(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", argument(args, "--kubeconfig="))
	if err != nil {
		return err
	}
	writer, err := seed.NewWriter(config)
	if err != nil {
		return err
	}
	for _, file := range []string{argument(args, "--config="), os.Getenv("OS_CLIENT_CONFIG_FILE")} {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	for _, document := range strings.Split(f.manifests(os.Getenv("DRIVER_IMAGE")), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		if err := writer.Write(ctx, object); err != nil {
			return err
		}
	}
	if err := f.reportAvailable(ctx, writer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (f fake) reportAvailable(ctx context.Context, w seed.Writer) error {
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
