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

// Operator is the client of a driver's ClusterCSIDriver that shows nothing unchecked: an observed configuration that is invalid
// counts as none, so that its observer writes it anew. What the operator writes there is printable and short.
type Operator struct {
	v1helpers.OperatorClientWithFinalizers
	name, place string
}

// NewOperator returns a client that checks what the other one reads. name is that of the ClusterCSIDriver, and place is what
// messages add to it.
func NewOperator(client v1helpers.OperatorClientWithFinalizers, name, place string) *Operator {
	return &Operator{OperatorClientWithFinalizers: client, name: name, place: place}
}

func (o *Operator) object() string { return "ClusterCSIDriver " + o.name + o.place }

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

// GetOperatorStateWithQuorum asks the API server for the state.
func (o *Operator) GetOperatorStateWithQuorum(ctx context.Context) (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := o.OperatorClientWithFinalizers.GetOperatorStateWithQuorum(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	return withCheckedConfig(o.object(), spec), status, version, nil
}

// withCheckedConfig returns the spec with the observed configuration as it was checked, or without it.
func withCheckedConfig(object string, spec *opv1.OperatorSpec) *opv1.OperatorSpec {
	checked := spec.DeepCopy()
	config, err := decodeObserved(object, spec.ObservedConfig.Raw)
	checked.ObservedConfig = runtime.RawExtension{}
	if err != nil || len(spec.ObservedConfig.Raw) == 0 {
		return checked
	}
	if raw, err := config.encode(); err == nil {
		checked.ObservedConfig.Raw = raw
	}
	return checked
}

// undecodable returns an error that names the field of the cached spec that cannot be decoded, if there is one. library-go takes a spec
// that is no object for an empty one, and its errors name no field.
func (o *Operator) undecodable() error {
	obj, found, err := o.Informer().GetStore().GetByKey(o.name)
	object, ok := obj.(*unstructured.Unstructured)
	if err != nil || !found || !ok || object.Object["spec"] == nil {
		return err
	}
	text, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &opv1.OperatorSpec{}); err != nil {
		return undecodable(o.object(), "spec", err)
	}
	return nil
}

// ApplyOperatorStatus applies the status with messages that are printable and short.
func (o *Operator) ApplyOperatorStatus(ctx context.Context, manager string, status *applyopv1.OperatorStatusApplyConfiguration) error {
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

// Managed tells whether the operator reconciles. It does so in the state Managed only, like library-go's controllers of
// Deployments and DaemonSets; in every other state, the driver stays as it is.
func Managed(spec *opv1.OperatorSpec) bool { return spec.ManagementState == opv1.Managed }

// Workloads is the client for the controllers of a driver's workloads. It shows a log level no higher than Trace: above it, client-go
// in the sidecars logs the bodies of answers, with the Secrets of StorageClasses. Where a value that workloads are made of is invalid or not
// there yet, it returns an error and nothing else, so that the workloads stay as they are.
func Workloads(client v1helpers.OperatorClientWithFinalizers, name, place string) v1helpers.OperatorClientWithFinalizers {
	return &workloads{OperatorClientWithFinalizers: client, object: "ClusterCSIDriver " + name + place}
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
		return nil, nil, "", fmt.Errorf("%w. The workloads stay as they are until then", err)
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
