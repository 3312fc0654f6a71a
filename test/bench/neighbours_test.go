//go:build bench

package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// Assumed numbers and sizes of other objects in the namespace of a small hosted control plane.
const (
	otherDeployments = 60
	otherSecrets     = 120
	otherConfigMaps  = 80
	// bundles is the number of ConfigMaps with a trusted CA bundle.
	bundles = 8

	kilobyte = 1000
	// documentSize is the size of a Secret or ConfigMap, such as a key or a configuration file.
	documentSize = 5 * kilobyte
	bundleSize   = 220 * kilobyte
	// templateSize is the size of the arguments of a Deployment's container.
	templateSize = 8 * kilobyte
	// changing is the interval between changes of an object of each kind.
	changing = 5 * time.Second
)

// neighbours are other objects in the namespaces of the hosted control planes.
type neighbours struct {
	kube       kubernetes.Interface
	namespaces []string
}

func newNeighbours(b *testing.B, s *site) neighbours {
	b.Helper()
	var n neighbours
	for _, e := range s.cluster.Environments() {
		config := e.ControlConfig()
		config.QPS = -1
		var err error
		n.kube, err = kubernetes.NewForConfig(config)
		must(b, err)
		n.namespaces = append(n.namespaces, e.Operators[0].Namespace)
	}
	return n
}

// measurePods reports the containers of the controller pods of a hosted control plane, without init
// containers that end, and the memory that they request.
func (n neighbours) measurePods(b *testing.B) {
	installed, err := fixtures.Operators([]string{"manila", "cinder"})
	must(b, err)
	for b.Loop() {
		var running []corev1.Container
		for _, o := range installed {
			deployment, err := n.kube.AppsV1().Deployments(n.namespaces[0]).
				Get(b.Context(), o.Workloads[0], metav1.GetOptions{})
			must(b, err)
			pod := deployment.Spec.Template.Spec
			running = append(running, pod.Containers...)
			for _, c := range pod.InitContainers {
				if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
					running = append(running, c)
				}
			}
		}
		var memory float64
		for _, c := range running {
			memory += c.Resources.Requests.Memory().AsApproximateFloat64() / (1 << 20)
		}
		report(b, "containers", float64(len(running)), 0)
		report(b, "memory-requests-Mi", memory, 0)
	}
}

func (n neighbours) create(b *testing.B) {
	b.Helper()
	for _, namespace := range n.namespaces {
		for i := range otherDeployments {
			_, err := n.kube.AppsV1().Deployments(namespace).
				Create(b.Context(), otherDeployment(name(i)), metav1.CreateOptions{})
			must(b, err)
		}
		for i := range otherSecrets {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name(i)},
				Data:       map[string][]byte{"tls.key": []byte(text(documentSize))},
			}
			_, err := n.kube.CoreV1().Secrets(namespace).Create(b.Context(), secret, metav1.CreateOptions{})
			must(b, err)
		}
		for i := range otherConfigMaps + bundles {
			size := documentSize
			if i >= otherConfigMaps {
				size = bundleSize
			}
			configMap := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name(i)},
				Data:       map[string]string{"content": text(size)},
			}
			_, err := n.kube.CoreV1().ConfigMaps(namespace).
				Create(b.Context(), configMap, metav1.CreateOptions{})
			must(b, err)
		}
	}
}

// keepChanging changes an object of each kind in each namespace periodically, until the returned
// function is called.
func (n neighbours) keepChanging(b *testing.B) (end func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(changing)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case now := <-ticker.C:
				if err := n.change(ctx, now); err != nil && ctx.Err() == nil {
					ended <- err
					return
				}
			}
		}
	}()
	return func() {
		cancel()
		must(b, <-ended)
	}
}

func (n neighbours) change(ctx context.Context, now time.Time) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":%q}}}`, now)
	for _, namespace := range n.namespaces {
		if _, err := n.kube.AppsV1().Deployments(namespace).
			Patch(ctx, name(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		if _, err := n.kube.CoreV1().Secrets(namespace).
			Patch(ctx, name(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		if _, err := n.kube.CoreV1().ConfigMaps(namespace).
			Patch(ctx, name(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func name(i int) string { return fmt.Sprintf("other-%d", i) }

func text(size int) string { return strings.Repeat("x", size) }

// otherDeployment returns a Deployment without pods, which the operators do not read.
func otherDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "main",
					Image: "example.com/other", Args: []string{text(templateSize)},
				}}},
			},
		},
	}
}
