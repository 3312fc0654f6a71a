package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// Operator is a client of a driver's ClusterCSIDriver that returns only checked values. It returns
// no observed configuration if it is invalid, so that its observer writes it again. It writes only
// short, printable messages.
type Operator struct {
	v1helpers.OperatorClientWithFinalizers
	name, suffix string
}

// NewOperator returns a client that checks the values that client reads. name is the name of the
// ClusterCSIDriver. Messages append suffix to it.
func NewOperator(client v1helpers.OperatorClientWithFinalizers, name, suffix string) *Operator {
	return &Operator{OperatorClientWithFinalizers: client, name: name, suffix: suffix}
}

func (o *Operator) object() string { return "ClusterCSIDriver " + o.name + o.suffix }

// GetOperatorState returns the state in the cache.
func (o *Operator) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := o.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil && apierrors.IsNotFound(err) {
		return nil, nil, "", err
	}
	if fault := o.undecodable(); fault != nil {
		return nil, nil, "", fault
	}
	if err != nil {
		return nil, nil, "", err
	}
	return withCheckedConfig(o.object(), spec), status, version, nil
}

// GetOperatorStateWithQuorum reads the state from the API server.
func (o *Operator) GetOperatorStateWithQuorum(
	ctx context.Context,
) (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := o.OperatorClientWithFinalizers.GetOperatorStateWithQuorum(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	return withCheckedConfig(o.object(), spec), status, version, nil
}

// withCheckedConfig returns the spec with the checked observed configuration, or without it if it
// is invalid.
func withCheckedConfig(object string, spec *opv1.OperatorSpec) *opv1.OperatorSpec {
	checked := spec.DeepCopy()
	config, err := decodeObserved(object, spec.ObservedConfig.Raw)
	checked.ObservedConfig = runtime.RawExtension{}
	if err != nil || len(spec.ObservedConfig.Raw) == 0 {
		return checked
	}
	if raw, err := json.Marshal(config); err == nil { // without the original spelling
		checked.ObservedConfig.Raw = raw
	}
	return checked
}

// undecodable returns an error if the cached spec cannot be decoded. The error names the field,
// unlike the errors of library-go, which treats a spec that is not an object as empty.
func (o *Operator) undecodable() error {
	obj, found, err := o.Informer().GetStore().GetByKey(o.name)
	object, ok := obj.(*unstructured.Unstructured)
	if err != nil || !found || !ok || object.Object["spec"] == nil {
		return err
	}
	if err := convert(object.Object["spec"], &opv1.OperatorSpec{}); err != nil {
		return undecodable(o.object(), "spec", err)
	}
	return nil
}

// ApplyOperatorStatus applies the status with short, printable messages.
func (o *Operator) ApplyOperatorStatus(
	ctx context.Context, manager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if status != nil {
		for i := range status.Conditions {
			if message := status.Conditions[i].Message; message != nil {
				printable := Printable(*message, maxMessage)
				status.Conditions[i].Message = &printable
			}
		}
	}
	return o.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, manager, status)
}

// Managed returns true if the operator reconciles: only in the state Managed, like library-go's
// controllers of Deployments and DaemonSets. In every other state, the driver stays unchanged.
func Managed(spec *opv1.OperatorSpec) bool { return spec.ManagementState == opv1.Managed }

// Workloads returns the client for workload controllers. Its highest log level is Trace: above it,
// client-go in the sidecars logs the bodies of responses, with the Secrets of StorageClasses. The
// client returns only an error while a value that workloads need is invalid or missing, so that
// workloads stay unchanged.
func Workloads(
	client v1helpers.OperatorClientWithFinalizers, name, suffix string,
) v1helpers.OperatorClientWithFinalizers {
	return &workloads{
		OperatorClientWithFinalizers: client,
		object:                       "ClusterCSIDriver " + name + suffix,
	}
}

type workloads struct {
	v1helpers.OperatorClientWithFinalizers
	object string
}

func (w *workloads) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := w.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil || !Managed(spec) {
		return spec, status, version, err
	}
	if err := w.check(spec); err != nil {
		return nil, nil, "", fmt.Errorf("%w. The workloads stay unchanged until then", err)
	}
	if spec.LogLevel == opv1.TraceAll {
		spec = spec.DeepCopy()
		spec.LogLevel = opv1.Trace
	}
	return spec, status, version, nil
}

func (w *workloads) check(spec *opv1.OperatorSpec) error {
	c := &checks{object: w.object}
	c.logLevel("spec.logLevel", spec.LogLevel)
	config, err := decodeObserved(w.object, spec.ObservedConfig.Raw)
	if err == nil {
		err = config.complete(w.object)
	}
	return errors.Join(append(c.faults, err)...)
}
