package driver

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// readTimeout limits one request.
const readTimeout = 10 * time.Second

// Reader reads the objects that a call names. Its errors are gRPC statuses, and contain no names of
// Secrets: the controller copies them into objects that users read. The log contains the names.
type Reader struct {
	Kube kubernetes.Interface
	// Driver is the name of the driver of all volumes.
	Driver string
}

// Volume returns a PersistentVolume of the driver, and the content of the Secret with which kubelet
// stages it, if it has one.
func (r Reader) Volume(ctx context.Context, name string) (*Volume, error) {
	volume, err := r.VolumeWithoutSecrets(ctx, name)
	if err != nil {
		return nil, err
	}
	if reference := volume.source.NodeStageSecretRef; reference != nil {
		volume.Secrets, err = r.Secrets(ctx, reference.Namespace, reference.Name)
	}
	return volume, err
}

// VolumeWithoutSecrets returns a PersistentVolume of the driver.
func (r Reader) VolumeWithoutSecrets(ctx context.Context, name string) (*Volume, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, status.Error(codes.InvalidArgument,
			"the request does not contain the name of a PersistentVolume")
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object, err := r.Kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		code, _ := classify(err)
		return nil, status.Errorf(code, "reading PersistentVolume %s: %v", name, err)
	}
	served := source.Of(object)
	switch {
	case served == nil:
		return nil, status.Errorf(codes.InvalidArgument,
			"PersistentVolume %s belongs to no CSI driver", name)
	case served.Driver != r.Driver:
		return nil, status.Errorf(codes.InvalidArgument,
			"PersistentVolume %s belongs to the driver %s, not to the driver %s", name, served.Driver,
			r.Driver)
	}
	return &Volume{object: object, source: served}, nil
}

// Secrets returns the content of a Secret, or nothing if neither name nor namespace is given.
func (r Reader) Secrets(ctx context.Context, namespace, name string) (map[string]string, error) {
	if namespace == "" && name == "" {
		return nil, nil
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, status.Error(codes.InvalidArgument,
			"a Secret needs a valid name and a valid namespace, or neither of them")
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	secret, err := r.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).Info("Failed to read the Secret of an operation",
			"secret", klog.KRef(namespace, name), "reason", err.Error())
		code, reason := classify(err)
		return nil, status.Errorf(code,
			"reading the Secret of the operation: %s: the log names the Secret", reason)
	}
	content := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		content[key] = string(value)
	}
	return content, nil
}

// classify returns the code for an error of the API server, and the reason without the message,
// which names the object.
func classify(err error) (code codes.Code, reason string) {
	switch {
	case apierrors.IsNotFound(err):
		return codes.NotFound, "not found"
	case apierrors.IsForbidden(err): // the RBAC of the sidecar is incomplete
		return codes.FailedPrecondition, "forbidden"
	default:
		return codes.Unavailable, "the API server did not answer"
	}
}
