package choice

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// kubeletDir is the folder of the kubelet in the assets.
	kubeletDir = "/var/lib/kubelet"
	// registrations is the folder of the registrar in the folder of the kubelet.
	registrations = "/plugins_registry/"
)

// validateNodes checks the options of the node plugins.
func (c *Config) validateNodes(inSpec bool) (errs field.ErrorList) {
	if c.KubeletDir != "" && !inSpec {
		errs = append(errs, field.Forbidden(field.NewPath("kubeletDir"),
			"remove the field: the folder is fixed on OpenShift"))
	}
	at := field.NewPath("nodeSelector")
	errs = append(errs, metav1validation.ValidateLabels(c.NodeSelector, at)...)
	if os, found := c.NodeSelector[corev1.LabelOSStable]; found && os != string(corev1.Linux) {
		errs = append(errs, field.Invalid(at.Key(corev1.LabelOSStable), os,
			"remove the label: node plugins run on Linux only"))
	}
	for i, toleration := range c.Tolerations {
		errs = append(errs, toleration.validate(field.NewPath("tolerations").Index(i))...)
	}
	return errs
}

func (t Toleration) validate(at *field.Path) (errs field.ErrorList) {
	exists := t.Operator == string(corev1.TolerationOpExists)
	switch {
	case t.Key != "":
		errs = metav1validation.ValidateLabelName(t.Key, at.Child("key"))
	case !exists:
		errs = append(errs, field.Required(at.Child("key"), "set it, or use the operator Exists"))
	}
	if exists && t.Value != "" {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value,
			"remove it, or use the operator Equal"))
	}
	for _, message := range validation.IsValidLabelValue(t.Value) {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, message))
	}
	return errs
}

// ApplyToNodes sets the options in the pods of a node plugin, which have the defaults.
func (c *Config) ApplyToNodes(pod *corev1.PodSpec) {
	if c == nil {
		return
	}
	if c.KubeletDir != "" {
		moveKubeletDir(pod, c.KubeletDir)
	}
	pod.NodeSelector = labels.Merge(pod.NodeSelector, c.NodeSelector)
	if c.Tolerations == nil {
		return
	}
	pod.Tolerations = nil
	for _, t := range c.Tolerations {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value,
			Effect: corev1.TaintEffect(t.Effect),
		})
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
