package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// findWorkloads finds the workloads that roll out for another login of a driver.
func (r *rotation) findWorkloads(ctx context.Context) error {
	for _, kind := range []string{deployment, "DaemonSet"} {
		list := listOf(appsv1.SchemeGroupVersion.WithKind(kind))
		if err := r.guest.List(ctx, list); err != nil {
			return fmt.Errorf("listing workloads: %w", err)
		}
		for _, o := range list.Items {
			inputs := diagnosis.ParseInputs(o.Annotations[diagnosis.InputsAnnotation])
			if d := r.guest.driverIf(func(d driver) bool {
				return o.Namespace == d.namespace && inputs["secret/"+d.credentials] != ""
			}); d != nil {
				r.workloads = append(r.workloads, followed{o.Namespace, kind, o.Name, d.credentials})
			}
		}
	}
	return nil
}

// hostedSecret names the Secret with the credentials of a guest cluster. Without the management
// cluster it names the field that contains the name.
func (r *rotation) hostedSecret(ctx context.Context) (string, error) {
	var planes []unstructured.Unstructured
	if r.management != nil {
		planes = r.management.hostedControlPlanes(ctx, r.hostedControl)
	}
	for _, o := range planes {
		name, _, _ := unstructured.NestedString(o.Object, "spec", "platform", "openstack",
			"identityRef", "name")
		// The annotation contains namespace/name of the HostedCluster.
		namespace, _, _ := strings.Cut(o.GetAnnotations()["hypershift.openshift.io/cluster"], "/")
		if name != "" && namespace != "" {
			return "Secret " + namespace + "/" + name, nil
		}
	}
	return "the Secret that the HostedCluster names in spec.platform.openstack.identityRef", r.failed()
}

func hostedControlPlane() schema.GroupVersionKind {
	return schema.GroupVersionKind{
		Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "HostedControlPlane",
	}
}

// followed is a workload that should run with the login in a Secret.
type followed struct{ namespace, kind, name, secret string }

func (f followed) String() string { return f.kind + "/" + f.name + " in " + f.namespace }

// followAll waits until each workload runs with the credentials.
func (r *rotation) followAll(ctx context.Context) error {
	for _, w := range r.workloads {
		if err := r.follow(ctx, w); err != nil {
			return err
		}
	}
	if !r.follows {
		fmt.Fprintln(r.Out, "No driver has a login, so there is nothing to wait for")
		return r.explain(ctx)
	}
	return nil
}

// follow waits until a workload runs with the content of its Secret, if it contains credentials.
func (r *rotation) follow(ctx context.Context, w followed) error {
	found, err := r.secret(ctx, w.namespace, w.secret)
	if err != nil || len(found.Data[cloudsKey]) == 0 {
		return err
	}
	r.follows = true
	if err := r.untilCopied(ctx, w.namespace, w.secret); err != nil {
		return err
	}
	changed := func(ctx context.Context) (bool, error) {
		hash, _, err := r.state(ctx, w)
		hashes, failed := r.hashes(ctx, w)
		return slices.Contains(hashes, hash), cmp.Or(err, failed)
	}
	err = r.until(ctx, "the operator has changed "+w.String(), changed, r.explain)
	if err != nil {
		return err
	}
	err = r.until(ctx, w.String()+" has rolled out", func(ctx context.Context) (bool, error) {
		_, rolledOut, err := r.state(ctx, w)
		return rolledOut, err
	}, nil)
	if err == nil {
		fmt.Fprintf(r.Out, "%s runs with the credentials of Secret %s\n", w, w.secret)
	}
	return err
}

// hashes returns those that the operators, each with its key, make of the login in a Secret.
func (r *rotation) hashes(ctx context.Context, w followed) (all []string, err error) {
	source, err := r.secret(ctx, w.namespace, w.secret)
	if err != nil {
		return nil, err
	}
	login, malformed := clouds.Content{Data: source.Data, CAElsewhere: true}.Login()
	if malformed != nil {
		return nil, nil //nolint:nilerr // the operator reports it
	}
	for _, d := range r.guest.drivers() {
		key, err := r.secret(ctx, d.operatorIn, d.operator+"-hash-key")
		if err != nil {
			return nil, err
		}
		content := map[string][]byte{}
		for field, value := range d.loginOf(login) {
			content[field] = []byte(value)
		}
		hash, err := diagnosis.Hash(key.Data["key"], "Secret "+w.namespace+"/"+w.secret, content)
		if err != nil {
			return nil, err
		}
		all = append(all, hash)
	}
	return all, nil
}

// untilCopied waits until the cloud credential operator has copied the root Secret, if any. It
// compares with the root Secret as it is now, because the cloud credential operator may rewrite it.
func (r *rotation) untilCopied(ctx context.Context, namespace, name string) error {
	if !r.isRoot {
		return nil
	}
	what := fmt.Sprintf("the cloud credential operator has copied the credentials to Secret %s in %s",
		name, namespace)
	return r.until(ctx, what, func(ctx context.Context) (bool, error) {
		root, failed := r.secret(ctx, rootNamespace, rootSecret)
		copied, err := r.secret(ctx, namespace, name)
		return len(root.Data[cloudsKey]) > 0 &&
			bytes.Equal(copied.Data[cloudsKey], root.Data[cloudsKey]), cmp.Or(failed, err)
	}, nil)
}

// state returns the present hash of the Secret, and whether the workload has rolled out.
func (r *rotation) state(ctx context.Context, w followed) (hash string, rolledOut bool, err error) {
	var object client.Object = &appsv1.Deployment{}
	if w.kind == "DaemonSet" {
		object = &appsv1.DaemonSet{}
	}
	err = r.guest.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, object)
	inputs := diagnosis.ParseInputs(object.GetAnnotations()[diagnosis.InputsAnnotation])
	return inputs["secret/"+w.secret], diagnosis.NewWorkload(object, nil).RolledOut, err
}

// until repeats check until it returns true. The time limit names the step. From the second time on
// it calls explain, unless it is nil: before, a condition may be about the previous credentials.
func (s *session) until(ctx context.Context, what string,
	check func(context.Context) (bool, error), explain func(context.Context) error,
) error {
	waiting := false
	err := wait.PollUntilContextCancel(ctx, s.interval, true,
		func(ctx context.Context) (bool, error) {
			done, err := check(ctx)
			if !done && err == nil && waiting && explain != nil {
				err = explain(ctx)
			}
			if err != nil && isUnreachable(err) {
				done, err = false, nil // the API server may restart while workloads roll out
			}
			if !done && err == nil && !waiting {
				waiting = true
				fmt.Fprintln(s.Err, "Waiting until "+what)
			}
			return done, err
		})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errDeadline
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w, waiting until %s. Run the command again %s", err, what, s.again)
	}
	return err
}

// followLogin waits until the operator of a driver has tested the credentials, and written the
// login that the driver reads, unless the driver has none yet.
func (r *rotation) followLogin(ctx context.Context, d driver) error {
	written, err := r.secret(ctx, d.namespace, d.loginSecret)
	if err != nil || !exists(written) {
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

func (r *rotation) hasLogin(ctx context.Context, d driver) (bool, error) {
	source, failed := r.secret(ctx, d.namespace, d.credentials)
	written, err := r.secret(ctx, d.namespace, d.loginSecret)
	if err = cmp.Or(failed, err); err != nil || !exists(source) {
		return err == nil, err
	}
	login, malformed := clouds.Content{Data: source.Data, CAElsewhere: true}.Login()
	if malformed != nil {
		return false, nil //nolint:nilerr // the operator reports it
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
	for _, d := range r.guest.drivers() {
		status := r.object(ctx, d)
		if status == nil {
			if err := r.failed(); err != nil {
				return err
			}
			continue
		}
		if status.Spec.ManagementState == opv1.Unmanaged {
			say(d.name, r.guest.nameOf(d)+" is Unmanaged, so its operator changes nothing. Set "+
				"spec.managementState to Managed")
		} else if sys := r.system(ctx, d); sys != nil && !sys.isLed() {
			say(d.name, linkOf(sys.noOperator()).sentence(maxSentence))
		}
		for _, c := range status.Status.Conditions {
			if strings.HasSuffix(c.Type, "CredentialsAccepted") && c.Status == opv1.ConditionFalse {
				say(c.Type, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			}
		}
	}
	return nil
}
