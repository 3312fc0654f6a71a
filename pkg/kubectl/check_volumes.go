package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// openClasses names the StorageClasses whose new shares every address may mount.
func (s *session) openClasses(ctx context.Context) []Link {
	var open []string
	for _, class := range list[storagev1.StorageClassList](ctx, s.guest).Items {
		d := s.guest.findDriver(class.Provisioner)
		clients, chosen := class.Parameters["nfs-shareClient"]
		isOpen := !chosen || slices.ContainsFunc(strings.Split(clients, ","), isEverywhere)
		if d != nil && d.kind == choice.Manila && isOpen {
			open = append(open, class.Name)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []Link{linkf(OK, "every address that reaches the servers may mount new shares of "+
		"StorageClass %s", diagnosis.List(open)).then("To restrict that, set class.shareClients of " +
		"Manila's driver")}
}

// isEverywhere returns whether a network contains every address.
func isEverywhere(network string) bool {
	parsed, err := netip.ParsePrefix(strings.TrimSpace(network))
	return err == nil && parsed.Bits() == 0
}

// openShares names the listed shares that every address may mount. It prints how far it is.
func (l *Volumes) openShares(ctx context.Context, s *session, in *contents) []Link {
	const often = 100
	var open, unknown []string
	asked, last := 0, error(nil)
	for _, v := range l.Volumes {
		d := s.guest.findDriver(v.Driver)
		if v.ID == "" || v.Cloud == "" || v.Cloud == missing || d == nil || d.kind != choice.Manila {
			continue
		}
		name := cmp.Or(v.Name, v.ID)
		if v.Claim != "" {
			name = v.Namespace + "/" + v.Claim
		}
		rules, err := in.shares.Rules(ctx, v.ID)
		if err != nil {
			unknown, last = append(unknown, name), err
		}
		if slices.ContainsFunc(rules, func(r shares.AccessRule) bool {
			return r.Type == "ip" && isEverywhere(r.To)
		}) {
			open = append(open, name)
		}
		if asked++; asked%often == 0 {
			fmt.Fprintf(s.Err, "Reading access rules: %d shares are done\n", asked)
		}
	}
	var links []Link
	if len(open) > 0 {
		links = append(links, linkf(Warning, "shares that every address may mount if it reaches "+
			"their servers (%d): %s", len(open), diagnosis.List(open)).
			then("For new shares, set shareClients; for these, run: kubectl openstack-csi restrict. %s",
				version.Page("docs/manila.md#restrict-access-to-shares")))
	}
	if len(unknown) > 0 {
		links = append(links, linkf(NotVisible, "the access rules of shares (%d): %s. The last error "+
			"is: %v", len(unknown), diagnosis.List(unknown), last))
	}
	return append(links, linkf(OK, "shares whose access rules were read: %d", asked-len(unknown)))
}

// conflicts names claims whose pods Kubernetes 1.37 and later do not let run on one node, where
// SELinux is enabled: they mount the volume with different labels
// (https://kubernetes.io/docs/tasks/configure-pod-container/security-context/). OpenShift counts
// them itself
// (https://github.com/openshift/kubernetes/tree/master/pkg/controller/volume/selinuxwarning).
func (s *session) conflicts(ctx context.Context) []Link {
	if config := s.guest.flavour.Namespaces("", "").UserConfig; config != "" {
		counted := find(ctx, s.guest, config, "selinux-conflicts", &corev1.ConfigMap{})
		if counted != nil {
			if counted.Data["conflictsPresent"] != "True" {
				return nil
			}
			return []Link{linkf(Warning, "ConfigMap %s/%s says that pods use a volume with different "+
				"SELinux labels, which prevents an upgrade of OpenShift", counted.Namespace, counted.Name).
				then("List them: kubectl get events -A --field-selector reason=SELinuxLabelConflict")}
		}
	}
	volumes := s.labelledVolumes(ctx)
	if len(volumes) == 0 {
		return nil
	}
	levels, pods := map[client.ObjectKey]map[string]bool{}, map[client.ObjectKey][]string{}
	for _, pod := range list[corev1.PodList](ctx, s.guest).Items {
		for _, v := range pod.Spec.Volumes {
			claim := client.ObjectKey{Namespace: pod.Namespace, Name: claimName(&pod, v)}
			chosen := levelsOf(&pod.Spec, v.Name)
			if hasEnded(&pod) || !volumes[claim] || len(chosen) == 0 {
				continue
			}
			if levels[claim] == nil {
				levels[claim] = map[string]bool{}
			}
			maps.Copy(levels[claim], chosen)
			pods[claim] = append(pods[claim], pod.Name)
		}
	}
	var found []string
	for claim, all := range levels {
		if len(all) > 1 {
			found = append(found, fmt.Sprintf("%s (pods %s)", claim, diagnosis.List(pods[claim])))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return []Link{linkf(Warning, "pods with different SELinux levels use claim %s. Where SELinux is "+
		"enabled, Kubernetes 1.37 and later may not start them on one node", diagnosis.List(found)).
		then("Give them the same seLinuxOptions.level, or set their seLinuxChangePolicy to Recursive")}
}

// labelledVolumes are the claims whose volumes drivers mount with the SELinux label of the pod.
func (s *session) labelledVolumes(ctx context.Context) map[client.ObjectKey]bool {
	claims := map[client.ObjectKey]bool{}
	labelled := map[string]bool{}
	for _, registered := range list[storagev1.CSIDriverList](ctx, s.guest).Items {
		labelled[registered.Name] = ptr.Deref(registered.Spec.SELinuxMount, false) &&
			s.guest.findDriver(registered.Name) != nil
	}
	if !slices.Contains(slices.Collect(maps.Values(labelled)), true) {
		return nil
	}
	for _, v := range list[corev1.PersistentVolumeList](ctx, s.guest).Items {
		served, claim := source.Of(&v), v.Spec.ClaimRef
		isBlock := ptr.Deref(v.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock
		if served != nil && labelled[served.Driver] && claim != nil && !isBlock {
			claims[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}] = true
		}
	}
	return claims
}

// levelsOf returns the SELinux levels with which containers of a pod mount a volume; none if the
// pod sets none, or lets the container runtime change the label of each file.
func levelsOf(pod *corev1.PodSpec, volume string) map[string]bool {
	levels := map[string]bool{}
	of := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	if ptr.Deref(of.SELinuxChangePolicy, "") == corev1.SELinuxChangePolicyRecursive {
		return nil
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		options := ptr.Deref(of.SELinuxOptions, corev1.SELinuxOptions{})
		if own := ptr.Deref(c.SecurityContext, corev1.SecurityContext{}).SELinuxOptions; own != nil {
			options = *own
		}
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == volume
		})
		if mounts && options.Level != "" {
			levels[options.Level] = true
		}
	}
	return levels
}
