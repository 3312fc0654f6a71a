package kubectl

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// followLogin waits until the operator of a driver has tested the credentials, and written the
// login that the driver reads, unless the driver has none yet.
func (r *rotation) followLogin(ctx context.Context, d driver) error {
	written, err := r.secret(ctx, d.namespace, d.loginSecret)
	if err != nil || written == nil {
		return err
	}
	r.follows = true
	if err := r.untilCopied(ctx, d.namespace, d.credentials); err != nil {
		return err
	}
	what := fmt.Sprintf("the operator has given the login in Secret %s to the driver of %s",
		d.credentials, d.title)
	return r.until(ctx, what, func(ctx context.Context) (bool, error) {
		return r.hasLogin(ctx, d)
	}, r.explain)
}

// hasLogin returns whether the driver has the login in its driver Secret.
func (r *rotation) hasLogin(ctx context.Context, d driver) (bool, error) {
	source, err := r.secret(ctx, d.namespace, d.credentials)
	if err != nil || source == nil {
		return source == nil, err
	}
	login, malformed := openstack.Content{Data: source.Data, CAElsewhere: true}.Login()
	written, err := r.secret(ctx, d.namespace, d.loginSecret)
	if malformed != nil || written == nil || err != nil {
		return false, err // the operator reports a malformed Secret
	}
	for key, value := range d.loginOf(login) {
		if string(written.Data[key]) != value {
			return false, nil
		}
	}
	return true, nil
}

// explain prints why the operators do not use the credentials, once for each reason.
func (r *rotation) explain(ctx context.Context) error {
	say := func(about, message string) {
		if r.obstacles[about] != message {
			r.obstacles[about] = message
			fmt.Fprintln(r.Err, printable(message))
		}
	}
	for _, d := range drivers() {
		status := &opv1.ClusterCSIDriver{}
		err := r.guest.Get(ctx, client.ObjectKey{Name: d.name}, status)
		if err := r.guest.judge(err, status); err != nil {
			return err
		}
		if status.Spec.ManagementState == opv1.Unmanaged {
			say(d.name, "ClusterCSIDriver "+d.name+" is Unmanaged, so its operator changes nothing. Set "+
				"spec.managementState to Managed")
		}
		for _, c := range status.Status.Conditions {
			if strings.HasSuffix(c.Type, "CredentialsAccepted") && c.Status == opv1.ConditionFalse {
				say(c.Type, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			}
		}
	}
	return nil
}
