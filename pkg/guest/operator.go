package guest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/crypto"
)

// Spec returns the checked spec of a ClusterCSIDriver. Messages call it object. An invalid observed
// configuration counts as missing, so that its observer writes it again.
func Spec(object string, from any) (*opv1.OperatorSpec, error) {
	spec := &opv1.OperatorSpec{}
	if from == nil {
		return spec, nil
	}
	if err := convert(from, spec); err != nil {
		return nil, undecodable(object, "spec", err)
	}
	raw := checkedConfig(object, spec.ObservedConfig.Raw)
	spec.ObservedConfig = runtime.RawExtension{Raw: raw}
	return spec, nil
}

// unobserved returns the observed configuration with the TLS settings of the default profile.
func unobserved() []byte {
	profile := configv1.TLSProfiles[crypto.DefaultTLSProfileType]
	raw, _ := json.Marshal(observed{Target: &target{ServingInfo: &servingInfo{ // always valid
		MinTLSVersion: string(profile.MinTLSVersion),
		CipherSuites:  crypto.OpenSSLToIANACipherSuites(profile.Ciphers),
	}}})
	return raw
}

// Complete completes a spec in which no observer writes. A missing management state is Managed.
func (c *Config) Complete(spec *opv1.OperatorSpec) {
	if c.unobserved != nil {
		spec.ManagementState = cmp.Or(spec.ManagementState, opv1.Managed)
		spec.ObservedConfig = runtime.RawExtension{Raw: c.unobserved}
	}
}

// checkedConfig returns the observed configuration in a new spelling, nil if it is invalid.
func checkedConfig(object string, raw []byte) []byte {
	config, err := decodeObserved(object, raw)
	if err != nil || len(raw) == 0 {
		return nil
	}
	checked, err := json.Marshal(config)
	if err != nil {
		return nil
	}
	return checked
}

// Managed returns true if the operator reconciles: only in the state Managed, like library-go's
// controllers of Deployments and DaemonSets. In every other state, the driver stays unchanged.
func Managed(spec *opv1.OperatorSpec) bool { return spec.ManagementState == opv1.Managed }

// WorkloadSpec returns the spec for workload controllers. Its highest log level is Trace: above it,
// client-go in the sidecars logs the bodies of responses, with the Secrets of StorageClasses. It
// returns an error while a value that workloads need is invalid or missing, so they stay unchanged.
func WorkloadSpec(object string, spec *opv1.OperatorSpec) (*opv1.OperatorSpec, error) {
	if !Managed(spec) {
		return spec, nil
	}
	c := &checks{object: object}
	c.logLevel("spec.logLevel", spec.LogLevel)
	config, err := decodeObserved(object, spec.ObservedConfig.Raw)
	if err == nil {
		err = config.complete(object)
	}
	if err := errors.Join(append(c.faults, err)...); err != nil {
		return nil, fmt.Errorf("%w. The workloads stay unchanged until then", err)
	}
	if spec.LogLevel == opv1.TraceAll {
		spec = spec.DeepCopy()
		spec.LogLevel = opv1.Trace
	}
	return spec, nil
}
