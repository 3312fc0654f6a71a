package choice

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	// kubeletDir is the folder of the kubelet in the assets.
	kubeletDir = "/var/lib/kubelet"
	// registrations is the folder of the registrar in the folder of the kubelet.
	registrations = "/plugins_registry/"
)

// validatePods checks the options of the pods that depend on the flavour or on several values. The
// API server checks the others.
func (c *Config) validatePods(f flavour.Flavour) (errs field.ErrorList) {
	if c.KubeletDir != "" && f.HasConfig() {
		errs = append(errs, field.Forbidden(field.NewPath("kubeletDir"),
			"remove the field: the folder is fixed on OpenShift"))
	}
	at := field.NewPath("pods")
	if f.Hosted() && !reflect.DeepEqual(c.Pods.Controller, ControllerPods{}) {
		errs = append(errs, field.Forbidden(at.Child("controller"), "remove the field: on HyperShift "+
			"these pods are configured by the HostedControlPlane"))
	}
	if f.Hosted() && c.ClaimAnnotations {
		errs = append(errs, field.Forbidden(field.NewPath("claimAnnotations"), "remove the field: on "+
			"HyperShift the driver cannot read claims of the guest cluster"))
	}
	errs = append(errs, c.Pods.Node.validate(at.Child("node"))...)
	return append(errs, c.Pods.Controller.validate(at.Child("controller"))...)
}

func (p PodOptions) validate(at *field.Path) (errs field.ErrorList) {
	if os, found := p.NodeSelector[corev1.LabelOSStable]; found && os != string(corev1.Linux) {
		errs = append(errs, field.Invalid(at.Child("nodeSelector").Key(corev1.LabelOSStable), os,
			"remove the label: drivers run on Linux only"))
	}
	reserved := regexp.MustCompile(reservedKey + `|^(.*\.)?openshift\.io/`)
	for name, added := range map[string]map[string]string{
		"labels": p.Labels, "annotations": p.Annotations,
	} {
		for key := range added {
			if reserved.MatchString(key) {
				errs = append(errs, field.Forbidden(at.Child(name).Key(key),
					"use another key: "+reservedKeys))
			}
		}
	}
	return errs
}

// ApplyToNodes sets the options of a node plugin.
func (c *Config) ApplyToNodes(pods *corev1.PodTemplateSpec) {
	if c == nil {
		return
	}
	if c.KubeletDir != "" {
		moveKubeletDir(&pods.Spec, c.KubeletDir)
	}
	c.Pods.Node.apply(pods)
}

// ApplyToController sets the options of the Deployment with the controller.
func (c *Config) ApplyToController(d *appsv1.Deployment) {
	if c == nil {
		return
	}
	d.Spec.Replicas = cmp.Or(c.Pods.Controller.Replicas, d.Spec.Replicas)
	c.Pods.Controller.apply(&d.Spec.Template)
}

// apply sets the options. Added elements of lists come first, so that they keep their indexes.
func (p PodOptions) apply(pods *corev1.PodTemplateSpec) {
	pods.Labels = merged(p.Labels, pods.Labels)
	pods.Annotations = merged(p.Annotations, pods.Annotations)
	pod := &pods.Spec
	pod.NodeSelector = merged(pod.NodeSelector, p.NodeSelector)
	if p.Tolerations != nil {
		pod.Tolerations = p.Tolerations
	}
	if a := p.Affinity; a != nil {
		own := ptr.Deref(pod.Affinity, corev1.Affinity{})
		pod.Affinity = &corev1.Affinity{
			NodeAffinity:    cmp.Or(a.NodeAffinity, own.NodeAffinity),
			PodAffinity:     cmp.Or(a.PodAffinity, own.PodAffinity),
			PodAntiAffinity: cmp.Or(a.PodAntiAffinity, own.PodAntiAffinity),
		}
	}
	pod.PriorityClassName = cmp.Or(p.PriorityClassName, pod.PriorityClassName)
	pod.ImagePullSecrets = slices.Concat(p.ImagePullSecrets, pod.ImagePullSecrets)
	pod.HostAliases = slices.Concat(p.HostAliases, pod.HostAliases)
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			if resources, found := p.Resources[containers[i].Name]; found {
				containers[i].Resources = resources
			}
		}
	}
}

// moveKubeletDir replaces the folder of the kubelet wherever the assets contain it.
func moveKubeletDir(pod *corev1.PodSpec, dir string) {
	replace := func(text *string) { *text = strings.ReplaceAll(*text, kubeletDir, dir) }
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			replace(&volume.HostPath.Path)
		}
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, container := range containers {
			for i := range container.Command {
				replace(&container.Command[i])
			}
			for i := range container.Args {
				replace(&container.Args[i])
			}
			for i := range container.Env {
				replace(&container.Env[i].Value)
			}
			for i := range container.VolumeMounts {
				replace(&container.VolumeMounts[i].MountPath)
			}
		}
	}
}

// KubeletDir returns the folder of the kubelet in which the pods of a node plugin register it, ""
// if they do not.
func KubeletDir(pod *corev1.PodSpec) string {
	for _, volume := range pod.Volumes {
		if volume.HostPath == nil {
			continue
		}
		if dir, found := strings.CutSuffix(volume.HostPath.Path, registrations); found {
			return dir
		}
	}
	return ""
}
