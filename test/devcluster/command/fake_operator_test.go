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

// fakeOperatorName is the program that `run` starts. The test binary plays it
// when it is called by this name.
const fakeOperatorName = "manila-operator"

// fakeObjects are what an operator leaves when all went well.
const fakeObjects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: openstack-manila-csi-controllerplugin, namespace: openshift-manila-csi-driver}
spec:
  replicas: 2
  selector: {matchLabels: {app: fake}}
  template:
    metadata: {labels: {app: fake}}
    spec:
      nodeSelector: {node-role.kubernetes.io/master: ""}
      tolerations: [{operator: Exists}]
      containers: [{name: csi-driver, image: "%[1]s"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: openstack-manila-csi-nodeplugin, namespace: openshift-manila-csi-driver}
spec:
  selector: {matchLabels: {app: fake-node}}
  template:
    metadata: {labels: {app: fake-node}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: csi-driver, image: "%[1]s"}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi-manila-default}
provisioner: manila.csi.openstack.org
parameters: {type: default}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi-manila-fast}
provisioner: manila.csi.openstack.org
parameters: {type: fast}
`

// fakeOperator creates its objects with the rights of the service account.
func fakeOperator(args []string) error {
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
	for _, document := range strings.Split(fmt.Sprintf(fakeObjects, os.Getenv("DRIVER_IMAGE")), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		if err := writer.Write(ctx, object); err != nil {
			return err
		}
	}
	if err := reportAvailable(ctx, writer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func reportAvailable(ctx context.Context, w seed.Writer) error {
	return w.Write(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.openshift.io/v1",
		"kind":       "ClusterCSIDriver",
		"metadata":   map[string]any{"name": "manila.csi.openstack.org"},
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

func playFakeOperator(args []string) int {
	if err := fakeOperator(args); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
