package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// The early placeholders: the operator knows their values when it starts, and Fill replaces them.
const (
	Namespace                = "NAMESPACE"      // of the driver's controllers
	NodeNamespace            = "NODE_NAMESPACE" // of the driver's node plugins
	DriverImage              = "DRIVER_IMAGE"
	NFSDriverImage           = "NFS_DRIVER_IMAGE"
	ProvisionerImage         = "PROVISIONER_IMAGE"
	AttacherImage            = "ATTACHER_IMAGE"
	ResizerImage             = "RESIZER_IMAGE"
	SnapshotterImage         = "SNAPSHOTTER_IMAGE"
	NodeDriverRegistrarImage = "NODE_DRIVER_REGISTRAR_IMAGE"
	LivenessProbeImage       = "LIVENESS_PROBE_IMAGE"
	KubeRBACProxyImage       = "KUBE_RBAC_PROXY_IMAGE"
	ReleaseVersion           = "RELEASE_VERSION"
)

// The late placeholders: they depend on what the cluster's configuration says at the moment, and library-go's
// controllers replace them at each sync.
const (
	LogLevel                    = "LOG_LEVEL"
	LeaderElectionLeaseDuration = "LEADER_ELECTION_LEASE_DURATION"
	LeaderElectionRenewDeadline = "LEADER_ELECTION_RENEW_DEADLINE"
	LeaderElectionRetryPeriod   = "LEADER_ELECTION_RETRY_PERIOD"
	ClusterID                   = "CLUSTER_ID"
	TLSCipherSuites             = "TLS_CIPHER_SUITES"
	TLSMinVersion               = "TLS_MIN_VERSION"
)

// Early returns the names of the placeholders which Fill replaces.
func Early() []string {
	return []string{
		Namespace, NodeNamespace, DriverImage, NFSDriverImage, ProvisionerImage, AttacherImage, ResizerImage,
		SnapshotterImage, NodeDriverRegistrarImage, LivenessProbeImage, KubeRBACProxyImage, ReleaseVersion,
	}
}

// Late returns the names of the placeholders which remain after Fill.
func Late() []string {
	return []string{
		LogLevel, LeaderElectionLeaseDuration, LeaderElectionRenewDeadline, LeaderElectionRetryPeriod, ClusterID,
		TLSCipherSuites, TLSMinVersion,
	}
}

// Placeholders returns the names of the placeholders in text, sorted, each once.
func Placeholders(text []byte) []string {
	found := map[string]bool{}
	for rest := text; ; {
		_, after, ok := bytes.Cut(rest, []byte("${"))
		name, next, closed := bytes.Cut(after, []byte("}"))
		if !ok || !closed {
			return slices.Sorted(maps.Keys(found))
		}
		found[string(name)] = true
		rest = next
	}
}

// Fill returns the bundle with its early placeholders replaced by the values of each asset's side. It is an error when a value is
// empty or could be anything but plain text in YAML, when an asset holds a placeholder which then is neither filled nor late, and
// when values names a placeholder which Fill does not know. One error lists every fault, and no value.
func (b *Bundle) Fill(values map[flavour.Side]map[string]string) (*Bundle, error) {
	var faults []error
	for _, side := range flavour.Sides() {
		faults = append(faults, checkNames(values[side])...)
	}
	filled := make([]Asset, 0, len(b.assets))
	for _, asset := range b.assets {
		text, missing := fillText(asset.Data, values[asset.Side])
		for _, fault := range missing {
			faults = append(faults, fmt.Errorf("asset %q: %w", asset.Name, fault))
		}
		asset.Data = text
		filled = append(filled, asset)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("filling placeholders: %w", errors.Join(faults...))
	}
	return &Bundle{assets: filled}, nil
}

func checkNames(values map[string]string) []error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(Early(), name) {
			faults = append(faults, fmt.Errorf("${%s} is not a placeholder to fill", name))
		}
	}
	return faults
}

// fillText replaces what it can and returns a fault for every placeholder it cannot.
func fillText(text []byte, values map[string]string) ([]byte, []error) {
	var faults []error
	var pairs []string
	plain := regexp.MustCompile(`^[A-Za-z0-9._:/@+~-]+$`)
	for _, name := range Placeholders(text) {
		value, given := values[name]
		switch {
		case slices.Contains(Late(), name):
		case !given:
			faults = append(faults, fmt.Errorf("${%s} has no value", name))
		case value == "":
			faults = append(faults, fmt.Errorf("${%s} has an empty value", name))
		case !plain.MatchString(value):
			faults = append(faults, fmt.Errorf("the value of ${%s} is not plain text", name))
		default:
			pairs = append(pairs, "${"+name+"}", value)
		}
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text))), faults
}
