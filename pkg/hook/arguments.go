package hook

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// Arguments adds arguments to the container with a name, if the pods have one. It calls arguments
// in each sync.
func Arguments(container string, arguments func() []string) Workload {
	add := func(spec *corev1.PodSpec) {
		for i := range spec.Containers {
			if one := &spec.Containers[i]; one.Name == container {
				one.Args = append(one.Args, arguments()...)
			}
		}
	}
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			add(&d.Spec.Template.Spec)
			return nil
		},
		DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
			add(&d.Spec.Template.Spec)
			return nil
		},
	}
}
