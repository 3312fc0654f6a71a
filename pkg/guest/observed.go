package guest

import (
	"bytes"
	"encoding/json"
	"errors"
)

// observed contains all fields that spec.observedConfig of a ClusterCSIDriver may contain.
// library-go's csiconfigobservercontroller defines the paths.
type observed struct {
	Target *target `json:"targetcsiconfig,omitempty"`
}

type target struct {
	ServingInfo *servingInfo    `json:"servingInfo,omitempty"`
	Proxy       *proxyVariables `json:"proxy,omitempty"`
}

type servingInfo struct {
	MinTLSVersion string   `json:"minTLSVersion,omitempty"`
	CipherSuites  []string `json:"cipherSuites,omitempty"`
}

// proxyVariables contains all variables that become environment variables of containers.
type proxyVariables struct {
	HTTP    string `json:"HTTP_PROXY,omitempty"`
	HTTPS   string `json:"HTTPS_PROXY,omitempty"`
	NoProxy string `json:"NO_PROXY,omitempty"`
}

// The paths of the fields for messages.
const (
	observedField = "spec.observedConfig"
	versionField  = observedField + ".targetcsiconfig.servingInfo.minTLSVersion"
	ciphersField  = observedField + ".targetcsiconfig.servingInfo.cipherSuites"
	proxyField    = observedField + ".targetcsiconfig.proxy."
)

// decodeObserved decodes and checks the observed configuration. Unknown fields are errors.
func decodeObserved(object string, raw []byte) (*observed, error) {
	o := &observed{}
	if len(raw) == 0 {
		return o, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(o); err != nil {
		return nil, undecodable(object, observedField, err)
	}
	c := &checks{object: object}
	if o.Target != nil && o.Target.ServingInfo != nil {
		c.tlsVersion(versionField, o.Target.ServingInfo.MinTLSVersion)
		c.cipherSuites(ciphersField, o.Target.ServingInfo.CipherSuites)
	}
	if o.Target != nil && o.Target.Proxy != nil {
		c.proxyURL(proxyField+"HTTP_PROXY", o.Target.Proxy.HTTP)
		c.proxyURL(proxyField+"HTTPS_PROXY", o.Target.Proxy.HTTPS)
		c.noProxy(proxyField+"NO_PROXY", o.Target.Proxy.NoProxy)
	}
	return o, errors.Join(c.faults...)
}

// complete returns an error if TLS settings that workloads need are missing.
func (o *observed) complete(object string) error {
	c := &checks{object: object}
	const fix = "the operator copies it from APIServer/cluster; " +
		"if it stays missing, read the condition ConfigObservationDegraded"
	info := &servingInfo{}
	if o.Target != nil && o.Target.ServingInfo != nil {
		info = o.Target.ServingInfo
	}
	if info.MinTLSVersion == "" {
		c.fault(versionField, "is missing", fix)
	}
	if len(info.CipherSuites) == 0 {
		c.fault(ciphersField, "is missing", fix)
	}
	return errors.Join(c.faults...)
}
