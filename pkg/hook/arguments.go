package hook

import corev1 "k8s.io/api/core/v1"

// Arguments adds arguments to the container with a name, if the pods have one. It calls arguments
// in each sync.
func Arguments(container string, arguments func() []string) Workload {
	return Pods(func(pod *corev1.PodSpec) error {
		for i := range pod.Containers {
			if one := &pod.Containers[i]; one.Name == container {
				one.Args = append(one.Args, arguments()...)
			}
		}
		return nil
	})
}
