package kubectl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// secretNames are Secrets as NAMESPACE/NAME, sorted.
type secretNames []string

// add adds a Secret that can exist. Classes may contain placeholders.
func (s *secretNames) add(namespace, name string) {
	full := namespace + "/" + name
	isName := len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(name)) == 0
	if isName && !slices.Contains(*s, full) {
		*s = append(*s, full)
		slices.Sort(*s)
	}
}

// addFrom adds the Secrets that fields with a prefix name, but not those of each claim.
func (s *secretNames) addFrom(fields map[string]string, prefix string) {
	for key, name := range fields {
		if call, found := strings.CutSuffix(key, "secret-name"); found && strings.HasPrefix(key, prefix) {
			s.add(fields[call+"secret-namespace"], name)
		}
	}
}

// addVolume adds the Secrets that a PersistentVolume names.
func (s *secretNames) addVolume(v *corev1.PersistentVolume) {
	s.addFrom(v.Annotations, "volume.kubernetes.io/")
	of := ptr.Deref(source.Of(v), corev1.CSIPersistentVolumeSource{})
	for _, ref := range []*corev1.SecretReference{
		of.ControllerPublishSecretRef, of.ControllerExpandSecretRef, of.NodeStageSecretRef,
		of.NodePublishSecretRef, of.NodeExpandSecretRef,
	} {
		if ref != nil {
			s.add(ref.Namespace, ref.Name)
		}
	}
}

// secretCounts are the numbers of PersistentVolumes that name a Secret.
type secretCounts map[string]int

func (c secretCounts) add(v *corev1.PersistentVolume) {
	var names secretNames
	names.addVolume(v)
	for _, name := range names {
		c[name]++
	}
}

// addSecretless adds a warning for each Secret that PersistentVolumes of a driver name and that
// does not exist. The conditions are about the one that its operator writes.
func (s *session) addSecretless(
	ctx context.Context, d driver, volumes []corev1.PersistentVolume, report *Status,
) {
	named := secretCounts{}
	for i := range volumes {
		if driverOf(&volumes[i]) == d.name && s.systems[d.name] != nil {
			named.add(&volumes[i])
		}
	}
	for _, full := range slices.Sorted(maps.Keys(named)) {
		namespace, name, _ := strings.Cut(full, "/")
		secret := &object{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}}
		if full == d.writes() || find(ctx, s.guest, namespace, name, secret) != nil ||
			s.guest.hidden["Secrets"] {
			continue
		}
		report.find(d.title, diagnosis.Finding{
			Severity: Warning, Type: "Storage", Next: s.recreate(ctx, d, full),
			Message: fmt.Sprintf("Secret %s does not exist, and %d PersistentVolumes name it, whose "+
				"volumes cannot be mounted", full, named[full]),
		})
	}
}

// writes returns the Secret that the operator writes.
func (d driver) writes() string { return d.namespace + "/" + d.loginSecret }

// recreate says how a Secret that PersistentVolumes name, which nobody can change, comes back. One
// of an earlier installation in another namespace is like that of the present one.
func (s *session) recreate(ctx context.Context, d driver, full string) string {
	namespace, name, _ := strings.Cut(full, "/")
	switch {
	case full == d.writes():
		return "Its operator creates it. Run: kubectl openstack-csi status " + strings.ToLower(d.title)
	case name != d.loginSecret:
		return "Create Secret " + full + " with the login for these volumes"
	}
	first := ""
	if find(ctx, s.guest, "", namespace, &corev1.Namespace{}) == nil {
		first = "kubectl create namespace " + namespace + "; "
	}
	return fmt.Sprintf(`Now and after each change of the login, run: %skubectl get secret %s -n %s `+
		`-o json | sed 's/"namespace":.*/"namespace":"%s",/' | kubectl replace --force -f -. Then let `+
		`the controller read it: %s`, first, name, d.namespace, namespace,
		version.Page("docs/manila.md#storageclasses-with-other-secrets"))
}

// recreated returns a link about a Secret that does not exist, and that the PersistentVolume of the
// claim names, with what creates it again.
func (f *claimFacts) recreated(ctx context.Context, l Link) Link {
	var names secretNames
	names.addVolume(f.volume)
	for _, full := range names {
		if f.sys != nil && strings.HasSuffix(full, "/"+l.missing) {
			return l.then("%s", f.recreate(ctx, f.sys.of, full))
		}
	}
	return l
}
