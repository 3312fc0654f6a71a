package kubectl

import (
	"context"
	"fmt"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// followLogin waits until the operator of a driver has tested the credentials, and written the
// login that the driver reads. For a driver without a login it only says why.
func (r *rotation) followLogin(ctx context.Context, d driver) error {
	written, err := r.secret(ctx, d.namespace, d.loginSecret)
	if err != nil {
		return err
	}
	if written == nil {
		return r.explainRefusal(ctx, d)
	}
	r.follows = true
	if r.isRoot {
		what := fmt.Sprintf("the cloud credential operator has copied the credentials to Secret %s in %s",
			d.credentials, d.namespace)
		err := r.until(ctx, what, func(ctx context.Context) (bool, error) {
			return r.isCopied(ctx, d.namespace, d.credentials)
		})
		if err != nil {
			return err
		}
	}
	what := fmt.Sprintf("the operator has given the login in Secret %s to the driver of %s",
		d.credentials, d.title)
	return r.until(ctx, what, func(ctx context.Context) (bool, error) {
		done, err := r.hasLogin(ctx, d)
		if !done && err == nil {
			err = r.explainRefusal(ctx, d)
		}
		return done, err
	})
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

// explainRefusal prints why the operator does not accept the credentials, once for each reason.
func (r *rotation) explainRefusal(ctx context.Context, d driver) error {
	status := &opv1.ClusterCSIDriver{}
	if found, err := r.guest.get(ctx, "", d.name, status); !found || err != nil {
		return err
	}
	for _, c := range status.Status.Conditions {
		if strings.HasSuffix(c.Type, "CredentialsAccepted") && c.Status == opv1.ConditionFalse &&
			c.Message != r.refusal {
			r.refusal = c.Message
			fmt.Fprintf(r.Err, "%s: %s\n", c.Type, c.Message)
		}
	}
	return nil
}
