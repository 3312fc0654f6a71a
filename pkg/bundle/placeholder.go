package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// The early placeholders: the operator knows their values at its start, and Fill replaces them.
const (
	Namespace                = "NAMESPACE"      // of the driver's controllers
	NodeNamespace            = "NODE_NAMESPACE" // of the driver's node plugins
	OperatorNamespace        = "OPERATOR_NAMESPACE"
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

// The late placeholders: their values depend on the configuration of the cluster. The operator and
// library-go's controllers replace them in each sync.
const (
	CSIAddonsSidecarImage       = "CSI_ADDONS_SIDECAR_IMAGE"
	CSIAddonsDriverImage        = "CSI_ADDONS_DRIVER_IMAGE"
	LogLevel                    = "LOG_LEVEL"
	LeaderElectionLeaseDuration = "LEADER_ELECTION_LEASE_DURATION"
	LeaderElectionRenewDeadline = "LEADER_ELECTION_RENEW_DEADLINE"
	LeaderElectionRetryPeriod   = "LEADER_ELECTION_RETRY_PERIOD"
	ClusterID                   = "CLUSTER_ID"
	TLSCipherSuites             = "TLS_CIPHER_SUITES"
	TLSMinVersion               = "TLS_MIN_VERSION"
)

// Early returns the names of the placeholders that Fill replaces.
func Early() []string {
	return []string{
		Namespace, NodeNamespace, OperatorNamespace, DriverImage, NFSDriverImage, ProvisionerImage,
		AttacherImage, ResizerImage, SnapshotterImage, NodeDriverRegistrarImage, LivenessProbeImage,
		KubeRBACProxyImage, ReleaseVersion,
	}
}

// Late returns the names of the placeholders that remain after Fill.
func Late() []string {
	return []string{
		CSIAddonsSidecarImage, CSIAddonsDriverImage, LogLevel, LeaderElectionLeaseDuration,
		LeaderElectionRenewDeadline, LeaderElectionRetryPeriod, ClusterID, TLSCipherSuites,
		TLSMinVersion,
	}
}

// Placeholders returns the sorted names of the placeholders in text, without duplicates.
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

// Fill returns a bundle in which the values of each asset's side replace the early placeholders. It
// returns one error that lists every problem but no value: a value that is empty or not plain text
// in YAML, and a placeholder without value that is not late.
func (b *Bundle) Fill(values map[flavour.Side]map[string]string) (*Bundle, error) {
	var errs []error
	filled := make([]Asset, 0, len(b.assets))
	for _, asset := range b.assets {
		text, missing := fillText(asset.Data, values[asset.Side])
		for _, err := range missing {
			errs = append(errs, fmt.Errorf("asset %q: %w", asset.Name, err))
		}
		asset.Data = text
		filled = append(filled, asset)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("filling placeholders: %w", errors.Join(errs...))
	}
	return &Bundle{assets: filled}, nil
}

// fillText returns the text with its placeholders replaced, and an error for each that has no valid
// value.
func fillText(text []byte, values map[string]string) ([]byte, []error) {
	var errs []error
	var pairs []string
	plain := regexp.MustCompile(`^(\[[0-9A-Fa-f:]+\])?[A-Za-z0-9._:/@+~-]+$`)
	for _, name := range Placeholders(text) {
		value, given := values[name]
		switch {
		case slices.Contains(Late(), name):
		case !given:
			errs = append(errs, fmt.Errorf("${%s} has no value", name))
		case value == "":
			errs = append(errs, fmt.Errorf("${%s} has an empty value", name))
		case !plain.MatchString(value):
			errs = append(errs, fmt.Errorf("the value of ${%s} is not plain text", name))
		default:
			if value[0] == '[' { // a registry with an IPv6 address, which would be a list
				value = strconv.Quote(value)
			}
			pairs = append(pairs, "${"+name+"}", value)
		}
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text))), errs
}

// imageSuffix ends the names of the placeholders of images, and of the environment variables.
const imageSuffix = "_IMAGE"

// ImageNames returns the placeholders of images in the bundles, by side.
func ImageNames(bundles []*Bundle) map[flavour.Side]sets.Set[string] {
	names := map[flavour.Side]sets.Set[string]{}
	for _, side := range flavour.Sides() {
		names[side] = sets.New[string]()
	}
	for _, b := range bundles {
		for _, asset := range b.Assets() {
			for _, name := range Placeholders(asset.Data) {
				if strings.HasSuffix(name, imageSuffix) {
					names[asset.Side].Insert(name)
				}
			}
		}
	}
	return names
}

// ImageVariables returns the environment variables of a placeholder, in order of preference.
//
// On HyperShift some variables contain images of the guest cluster's release, for its nodes. Pods
// in the management cluster use the release of the control plane, which has variables of its own.
// cluster-storage-operator sets two of them; the image of the guest cluster is the fallback.
func ImageVariables(f flavour.Flavour, side flavour.Side, placeholder string) []string {
	if !f.Hosted() || side != flavour.ControlPlane {
		return []string{placeholder}
	}
	own := strings.TrimSuffix(placeholder, imageSuffix) + "_CONTROL_PLANE" + imageSuffix
	switch placeholder {
	case DriverImage, LivenessProbeImage, NFSDriverImage:
		return []string{own, placeholder}
	}
	return []string{placeholder}
}

// AllImageVariables returns the variables of each image in the bundles.
func AllImageVariables(f flavour.Flavour, bundles []*Bundle) [][]string {
	var all [][]string
	names := ImageNames(bundles)
	for _, side := range flavour.Sides() {
		for _, name := range sets.List(names[side]) {
			variables := ImageVariables(f, side, name)
			if !slices.ContainsFunc(all, func(known []string) bool { return known[0] == variables[0] }) {
				all = append(all, variables)
			}
		}
	}
	return all
}
