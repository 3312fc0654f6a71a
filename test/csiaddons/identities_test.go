//go:build integration && (long || bench)

package csiaddons

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// server is where a sidecar of a driver should answer, and the pin of its key.
type server struct {
	driver, address, pin string
	port                 uint16
}

// addSidecarObject creates a pod with an address, which no kubelet runs, and its CSIAddonsNode.
func addSidecarObject(ctx context.Context, kube client.Client, name string, at server) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "none", Containers: []corev1.Container{{Name: "a", Image: "a"}},
		},
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) { // the ServiceAccount may not exist yet
			return kube.Create(ctx, pod) == nil, nil
		})
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", name, err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = at.address, []corev1.PodIP{{IP: at.address}}
	if err := kube.Status().Update(ctx, pod); err != nil {
		return err
	}
	node := sidecarObject(at.driver, pod, name)
	node.Annotations[v1alpha1.CertificatePinAnnotation] = at.pin
	endpoint := wire.Endpoint{Pod: name, Namespace: pod.Namespace, Port: at.port}
	node.Spec.Driver.EndPoint = endpoint.String()
	return kube.Create(ctx, node)
}

// serveIdentity serves the identity of a driver on a port of all addresses. It returns the pin.
func (w *world) serveIdentity(d *fakeDriver) (uint16, string) {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.must(err)
	certificate, err := x509.ParseCertificate(encoded)
	w.must(err)
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "0.0.0.0:0")
	w.must(err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{encoded}, PrivateKey: key}},
	})))
	identity.RegisterIdentityServer(server, d)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	w.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String()).Port(), wire.Pin(certificate)
}
