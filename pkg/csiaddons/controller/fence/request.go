package fence

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxCIDRs is the maximum number of CIDRs that a sidecar accepts.
const maxCIDRs = wire.MaxNetworks

// invalid is an error that only a change of an object corrects.
type invalid struct{ reason, message string }

// Error implements error.
func (i *invalid) Error() string { return i.message }

func invalidf(reason, format string, args ...any) error {
	return &invalid{reason: reason, message: fmt.Sprintf(format, args...)}
}

// request returns the driver of a NetworkFence, and what to send to it. Both are also set if the
// error is about its CIDRs.
func request(ctx context.Context, reader client.Reader, f *v1alpha1.NetworkFence,
) (string, *wire.NetworkFenceRequest, error) {
	driver, found := f.Spec.Driver, &wire.NetworkFenceRequest{Parameters: map[string]string{}}
	maps.Copy(found.Parameters, f.Spec.Parameters)
	if secret := f.Spec.Secret; secret != nil {
		found.SecretName, found.SecretNamespace = secret.Name, secret.Namespace
	}
	if name := f.Spec.NetworkFenceClassName; name != "" {
		class := &v1alpha1.NetworkFenceClass{}
		err := reader.Get(ctx, types.NamespacedName{Name: name}, class)
		if apierrors.IsNotFound(err) || err == nil && class.DeletionTimestamp != nil {
			err = fmt.Errorf("NetworkFenceClass %s does not exist", name)
		}
		if err != nil {
			return "", nil, err
		}
		clients, err := classRequest(class)
		if err != nil {
			return "", nil, err
		}
		driver = class.Spec.Provisioner
		maps.Copy(found.Parameters, clients.GetParameters()) // the class wins
		found.SecretName, found.SecretNamespace = clients.GetSecretName(), clients.GetSecretNamespace()
	}
	if n := len(f.Spec.Cidrs); n == 0 || n > maxCIDRs {
		return driver, found, invalidf(ReasonInvalidCIDR, "spec.cidrs contains %d CIDRs: it must "+
			"contain between 1 and %d", n, maxCIDRs)
	}
	for _, cidr := range f.Spec.Cidrs {
		if _, err := wire.ParseCIDR(cidr); err != nil {
			return driver, found, invalidf(ReasonInvalidCIDR, "spec.cidrs contains %.64q, which is no CIDR",
				cidr)
		}
	}
	found.Cidrs = masked(f.Spec.Cidrs)
	return driver, found, nil
}

// classRequest returns what to send to the driver of a NetworkFenceClass. The reserved parameters
// name the Secret. A class without them has no Secret.
func classRequest(class *v1alpha1.NetworkFenceClass) (*wire.FenceClientsRequest, error) {
	found := &wire.FenceClientsRequest{Parameters: map[string]string{}}
	for key, value := range class.Spec.Parameters {
		switch {
		case key == v1alpha1.NetworkFenceSecretNameParameter:
			found.SecretName = value
		case key == v1alpha1.NetworkFenceSecretNamespaceParameter:
			found.SecretNamespace = value
		case strings.HasPrefix(key, v1alpha1.ReservedParameterPrefix):
			return nil, invalidf(ReasonInvalidClass, "NetworkFenceClass %s contains the parameter "+
				"%s, which is reserved and unknown", class.Name, key)
		default:
			found.Parameters[key] = value
		}
	}
	if (found.GetSecretName() == "") != (found.GetSecretNamespace() == "") {
		return nil, invalidf(ReasonInvalidClass, "NetworkFenceClass %s names only one of the name and "+
			"the namespace of the Secret", class.Name)
	}
	return found, nil
}
