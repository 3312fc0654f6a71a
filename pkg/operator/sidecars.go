package operator

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

func (d *driver) sidecarHooks(deployed func() *appsv1.Deployment) []hook.Workload {
	given := func(flag string, is func(choice.Config) bool) func() []string {
		return func() []string {
			if !is(d.choices.Config()) {
				return nil
			}
			return []string{flag}
		}
	}
	const names = "--extra-create-metadata"
	claims := func(c choice.Config) bool { return c.ClaimAnnotations }
	metadata := func(c choice.Config) bool { return c.Sidecars.ClaimMetadata }
	hooks := []hook.Workload{
		d.releaseLeasesHook(deployed),
		hook.Arguments("csi-driver", given("--pvc-annotations", claims)),
		hook.Arguments("csi-provisioner", given(names, func(c choice.Config) bool {
			return claims(c) || metadata(c)
		})),
		hook.Arguments("csi-snapshotter", given(names, metadata)),
	}
	for _, sidecar := range sidecarsWithLease() {
		hooks = append(hooks, hook.Arguments(sidecar, func() []string {
			return sidecarArguments(sidecar, d.choices.Config().Sidecars)
		}))
	}
	return hooks
}

// sidecarArguments returns the arguments of a sidecar for the choices. They override earlier ones.
func sidecarArguments(sidecar string, chosen choice.Sidecars) (arguments []string) {
	workers := "--worker-threads"
	if sidecar == "csi-resizer" {
		workers = "--workers"
	}
	if chosen.Timeout != "" {
		arguments = append(arguments, "--timeout="+chosen.Timeout)
	}
	for _, option := range []struct {
		flag  string
		value int
	}{
		{workers, chosen.Workers},
		{"--kube-api-qps", chosen.KubeAPIQPS},
		{"--kube-api-burst", chosen.KubeAPIBurst},
	} {
		if option.value != 0 {
			arguments = append(arguments, option.flag+"="+strconv.Itoa(option.value))
		}
	}
	return arguments
}

// sidecarsWithLease returns the names of the containers that elect a leader.
func sidecarsWithLease() []string {
	return []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"}
}

// releaseGate makes a sidecar release its Lease when it ends. A sidecar that does not know the
// feature gate exits.
const releaseGate = "--feature-gates=ReleaseLeaderElectionOnExit=true"

// releaseTimeout bounds the requests for the release of OpenShift, for which workloads wait.
const releaseTimeout = 10 * time.Second

// releaseLeasesHook returns the hook that adds the feature gate to the sidecars that know it.
func (d *driver) releaseLeasesHook(deployed func() *appsv1.Deployment) hook.Workload {
	return hook.Workload{Deployment: func(_ *opv1.OperatorSpec, wanted *appsv1.Deployment) error {
		before := cmp.Or(deployed(), &appsv1.Deployment{})
		containers := wanted.Spec.Template.Spec.Containers
		for i := range containers {
			if hasLease(containers[i]) && d.releasesLease(containers[i], wanted, before) {
				containers[i].Args = append(containers[i].Args, releaseGate)
			}
		}
		return nil
	}}
}

func hasLease(c corev1.Container) bool {
	return slices.Contains(sidecarsWithLease(), c.Name)
}

// releasesLease returns whether a sidecar gets the feature gate. While the release is unknown, for
// example because the operator's Deployment rolls out, a sidecar with the same image keeps it.
func (d *driver) releasesLease(c corev1.Container, wanted, deployed *appsv1.Deployment) bool {
	chosen := d.choices.Config().Sidecars.ReleaseLeases
	switch {
	case d.settings.ReleaseLeases != nil:
		return *d.settings.ReleaseLeases
	case chosen == choice.Always || chosen == choice.Never:
		return chosen == choice.Always
	case d.cluster.Flavour.NamesSidecars():
		return true
	case !d.ofOneRelease(wanted.Spec.Template.Spec.Containers):
		return false
	}
	release, err := version.ParseGeneric(cmp.Or(d.settings.ReleaseVersion,
		wanted.Annotations[hook.DesiredVersionAnnotation], d.release))
	if err != nil {
		return slices.ContainsFunc(deployed.Spec.Template.Spec.Containers,
			func(before corev1.Container) bool {
				return before.Name == c.Name && before.Image == c.Image &&
					slices.Contains(before.Args, releaseGate)
			})
	}
	first := version.MajorMinor(4, 21)
	if d.cluster.Flavour.Hosted() {
		// A control plane may be newer than the guest cluster, whose release the sidecars are from.
		first = version.MajorMinor(4, 22)
	}
	return release.AtLeast(first)
}

// ofOneRelease returns whether the sidecars are images of the release: all images of a release have
// a digest, and one repository. Otherwise somebody has replaced an image.
func (d *driver) ofOneRelease(containers []corev1.Container) bool {
	repository, _, found := strings.Cut(d.settings.Images[bundle.NodeDriverRegistrarImage], "@")
	return found && !slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return hasLease(c) && !strings.HasPrefix(c.Image, repository+"@")
	})
}

// releaseOfOpenShift returns the release of a standalone cluster, "" if it is unknown, or if
// something else decides whether sidecars get the feature gate. OpenShift updates this ConfigMap
// after cluster-storage-operator (run levels 80 and 50), so the sidecars are never older. An update
// of OpenShift ends with a restart of each node, and so of the operator.
func (d *driver) releaseOfOpenShift(ctx context.Context) string {
	const namespace, name = "openshift-machine-config-operator", "machine-config-osimageurl"
	if d.cluster.Flavour.Hosted() || d.cluster.Flavour.NamesSidecars() ||
		d.settings.ReleaseLeases != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	guest := d.cluster.Side(flavour.Guest)
	allowed, err := guest.May(ctx, authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "configmaps", Namespace: namespace, Name: name,
	})
	if err == nil && !allowed {
		return ""
	}
	var object *corev1.ConfigMap
	if err == nil {
		object, err = guest.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).Info("Cannot read the release of OpenShift", "err", err)
		return ""
	}
	return object.Data["releaseVersion"]
}
