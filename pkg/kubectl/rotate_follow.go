package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// workloads returns a line for each workload with rollout inputs: namespace, kind/name, and inputs.
// It reads namespaces openshift-* only: users can add the annotation in other namespaces.
func (r *rotation) workloads(ctx context.Context) ([]byte, error) {
	var lines []string
	for _, kind := range []string{"Deployment", "DaemonSet"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := r.guest.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing workloads: %w", err)
		}
		for _, o := range list.Items {
			inputs := o.Annotations[diagnosis.InputsAnnotation]
			if inputs != "" && strings.HasPrefix(o.Namespace, "openshift-") {
				lines = append(lines, fmt.Sprintf("%s %s/%s %s\n", o.Namespace, kind, o.Name, inputs))
			}
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

// hostedSecret names the Secret with the credentials of a guest cluster. Without the management
// cluster it names the field that contains the name.
func (r *rotation) hostedSecret(ctx context.Context) (string, error) {
	const unknown = "the Secret that the HostedCluster names in spec.platform.openstack.identityRef"
	if r.management == nil {
		return unknown, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(hostedControlPlane())
	if err := r.management.list(ctx, list, client.InNamespace(r.hostedControl)); err != nil {
		return "", err
	}
	for _, o := range list.Items {
		name, _, err := unstructured.NestedString(o.Object, "spec", "platform", "openstack",
			"identityRef", "name")
		// The annotation contains namespace/name of the HostedCluster.
		namespace, _, _ := strings.Cut(o.GetAnnotations()["hypershift.openshift.io/cluster"], "/")
		if err == nil && name != "" && namespace != "" {
			return "Secret " + namespace + "/" + name, nil
		}
	}
	if hidden := r.management.notVisible(); len(hidden) > 0 {
		return unknown + " (not visible: " + strings.Join(hidden, ", ") + ")", nil
	}
	return unknown, nil
}

func hostedControlPlane() schema.GroupVersionKind {
	return schema.GroupVersionKind{
		Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "HostedControlPlane",
	}
}

// followed is a workload that should roll out.
type followed struct {
	namespace, kind, name string
	// inputs are the hashes of rollout inputs that it had. restored means that it should get them
	// again.
	inputs   map[string]string
	restored bool
}

func (f followed) String() string { return f.kind + "/" + f.name + " in " + f.namespace }

// followAll waits until each workload runs with the credentials, if they are among its inputs.
func (r *rotation) followAll(ctx context.Context) error {
	var lines []byte
	restored := false
	if r.backup != nil {
		restored = r.undo && len(r.backup.Data[workloadsKey]) > 0
		lines = r.backup.Data[latestKey]
		if restored || len(lines) == 0 {
			lines = r.backup.Data[workloadsKey]
		}
	}
	for line := range strings.Lines(string(lines)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kind, name, _ := strings.Cut(fields[1], "/")
		one := followed{fields[0], kind, name, diagnosis.ParseInputs(fields[2]), restored}
		for _, input := range slices.Sorted(maps.Keys(one.inputs)) {
			secret, ok := strings.CutPrefix(input, "secret/")
			if !ok {
				continue
			}
			found, err := r.follow(ctx, one, secret)
			if err != nil {
				return err
			}
			r.follows = r.follows || found
		}
	}
	if !r.follows {
		fmt.Fprintln(r.Out, "No driver has a login, so there is nothing to wait for")
		return r.explain(ctx)
	}
	return nil
}

// follow waits until a workload runs with the content of a Secret. It returns false if the Secret
// contains no credentials.
func (r *rotation) follow(ctx context.Context, w followed, secret string) (bool, error) {
	found, err := r.secret(ctx, w.namespace, secret)
	if err != nil || found == nil || len(found.Data[cloudsKey]) == 0 {
		return false, err
	}
	if err := r.untilCopied(ctx, w.namespace, secret); err != nil {
		return true, err
	}
	before, input := w.inputs["secret/"+secret], "secret/"+secret
	changed := func(ctx context.Context) (bool, error) {
		state, err := r.state(ctx, w)
		return (diagnosis.ParseInputs(state.inputs)[input] == before) == w.restored, err
	}
	err = r.until(ctx, "the operator has changed "+w.String(), changed, r.explain)
	if err != nil {
		return true, err
	}
	err = r.until(ctx, w.String()+" has rolled out", func(ctx context.Context) (bool, error) {
		state, err := r.state(ctx, w)
		return state.rolledOut, err
	}, nil)
	if err == nil {
		fmt.Fprintf(r.Out, "%s runs with the credentials of Secret %s\n", w, secret)
	}
	return true, err
}

// untilCopied waits until the cloud credential operator has copied the root Secret, if any.
func (r *rotation) untilCopied(ctx context.Context, namespace, name string) error {
	if !r.isRoot {
		return nil
	}
	what := fmt.Sprintf("the cloud credential operator has copied the credentials to Secret %s in %s",
		name, namespace)
	return r.until(ctx, what, func(ctx context.Context) (bool, error) {
		return r.isCopied(ctx, namespace, name)
	}, nil)
}

// isCopied compares with the root Secret as it is now, because the cloud credential operator may
// rewrite it.
func (r *rotation) isCopied(ctx context.Context, namespace, name string) (bool, error) {
	root, err := r.secret(ctx, rootNamespace, rootSecret)
	if err != nil || root == nil {
		return false, err
	}
	copied, err := r.secret(ctx, namespace, name)
	return copied != nil && len(root.Data[cloudsKey]) > 0 &&
		bytes.Equal(copied.Data[cloudsKey], root.Data[cloudsKey]), err
}

// workloadState is the state of a workload.
type workloadState struct {
	inputs    string
	rolledOut bool
}

func (r *rotation) state(ctx context.Context, w followed) (workloadState, error) {
	key := client.ObjectKey{Namespace: w.namespace, Name: w.name}
	if w.kind == "Deployment" {
		d := &appsv1.Deployment{}
		err := r.guest.Get(ctx, key, d)
		s, wanted := d.Status, ptr.Deref(d.Spec.Replicas, 1)
		return workloadState{
			d.Annotations[diagnosis.InputsAnnotation],
			s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= wanted &&
				s.AvailableReplicas >= wanted && s.Replicas == s.UpdatedReplicas,
		}, err
	}
	d := &appsv1.DaemonSet{}
	err := r.guest.Get(ctx, key, d)
	s := d.Status
	return workloadState{
		d.Annotations[diagnosis.InputsAnnotation],
		s.ObservedGeneration >= d.Generation && s.UpdatedNumberScheduled >= s.DesiredNumberScheduled &&
			s.NumberAvailable >= s.DesiredNumberScheduled,
	}, err
}

// until repeats check until it returns true. The time limit names the step. From the second time on
// it calls explain, unless it is nil: before, a condition may be about the previous credentials.
func (r *rotation) until(ctx context.Context, what string,
	check func(context.Context) (bool, error), explain func(context.Context) error,
) error {
	waiting := false
	err := wait.PollUntilContextCancel(ctx, r.interval, true,
		func(ctx context.Context) (bool, error) {
			done, err := check(ctx)
			if !done && err == nil && waiting && explain != nil {
				err = explain(ctx)
			}
			if err != nil && isUnreachable(err) {
				err = nil // the API server may restart while workloads roll out
			}
			if !done && err == nil && !waiting {
				waiting = true
				fmt.Fprintln(r.Err, "Waiting until "+what)
			}
			return done, err
		})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errDeadline
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w, waiting until %s. Run the command again with the same file to continue, "+
			"or with --undo to go back", err, what)
	}
	return err
}
