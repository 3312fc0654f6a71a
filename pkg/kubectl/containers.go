package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// troubled says why a pod does not run. If its node has ended it, the node can tell more.
func (s *session) troubled(ctx context.Context, pod *corev1.Pod, fails string) Link {
	state, reason, trouble := diagnosis.PodTrouble(pod)
	if !strings.HasPrefix(trouble, "container ") {
		fails += "the pod "
	}
	l := linkf(state, "%s%s", fails, trouble).thenStart(reason, "the pod")
	l.said = diagnosis.SaidIn(trouble)
	node := s.node(ctx, pod.Spec.NodeName)
	if reason != diagnosis.ReasonFailed || pod.Status.Reason == "" || node == nil {
		return l
	}
	if ails, next := s.ailing(node); ails != "" {
		l.Text = "node " + node.Name + " " + ails + ": " + l.Text
		return l.then("%s", next)
	}
	return l.then("%s", cmp.Or(meaning.Of(fault.Parse(pod.Status.Message)).Next,
		"Delete pod "+pod.Name+", so that what creates it makes another"))
}

// stopped says why the pod is not ready. What a container says can be about its volumes.
func (f *podFacts) stopped(ctx context.Context) Link {
	_, reason, trouble := diagnosis.PodTrouble(f.pod)
	l := f.troubled(ctx, f.pod, "")
	if reason == diagnosis.ReasonImage {
		m := meaning.OfEvent(reason, fault.Parse(saidBy(f.pod, reason)))
		return l.meant(reason, saidBy(f.pod, reason), f.pod.Namespace, "").then("%s", m.Next)
	}
	parsed := fault.Parse(l.said)
	parsed.Names = map[fault.Noun]string{fault.Node: f.node}
	mount, claim, sealed := f.mounted(l.said)
	parsed.Names["sealed"] = sealed
	if claim != nil {
		parsed.Names[fault.Claim], parsed.Names[fault.Volume] = claim.claim.Name, claim.handle()
	}
	m := meaning.OfEvent(reason, parsed)
	if m.Stops == "" || reason == diagnosis.ReasonFailed {
		return f.unhealthy(l, reason, f.events)
	}
	l.Text = m.Stops + ": " + trouble
	if field := claim.readOnly(f.volume(mount), mount); m.Topic == meaning.ReadOnly && field != "" {
		l.Text = "the pod mounts pvc/" + claim.claim.Name + " read-only: " + trouble
		return l.then("Correct %s if the container must write", field)
	}
	return l.then("%s", m.Next)
}

// addPull replaces why an image of a pod cannot be pulled by what is wrong with its pull Secret, if
// the registry wants a login: the API server accepts Secrets of any type there, and the kubelet
// ignores them. It returns whether it has found such an image.
func (c *cluster) addPull(ctx context.Context, pod *corev1.Pod) bool {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil || !strings.Contains(waiting.Reason, "Image") {
			continue
		}
		said := fault.Parse(saidBy(pod, diagnosis.ReasonImage))
		if meaning.OfEvent(diagnosis.ReasonImage, said).Topic == meaning.Registry {
			waiting.Message = cmp.Or(c.pullTrouble(ctx, pod), waiting.Message)
		}
		return true
	}
	return false
}

// pullTrouble returns what is wrong with the pull Secrets of a pod, "" if one is good, or nobody
// knows. The table of meanings knows these texts.
func (c *cluster) pullTrouble(ctx context.Context, pod *corev1.Pod) (trouble string) {
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret := find(ctx, c, pod.Namespace, ref.Name, &corev1.Secret{})
		at := fmt.Sprintf("pull Secret %s in namespace %s ", ref.Name, pod.Namespace)
		switch {
		case c.hidden["Secrets"]:
			return ""
		case secret == nil:
			trouble = cmp.Or(trouble, at+"does not exist")
		case len(secret.Data[corev1.DockerConfigJsonKey])+len(secret.Data[corev1.DockerConfigKey]) > 0 &&
			(secret.Type == corev1.SecretTypeDockerConfigJson || secret.Type == corev1.SecretTypeDockercfg):
			return ""
		default:
			trouble = at + "has the type " + string(cmp.Or(secret.Type, corev1.SecretTypeOpaque))
		}
	}
	return trouble
}

// unmountable returns the errors of mounts because of which the node cannot create a container.
func (f *podFacts) unmountable(ctx context.Context) []Link {
	if _, reason, _ := diagnosis.PodTrouble(f.pod); reason != diagnosis.ReasonContainer {
		return nil
	}
	return slices.DeleteFunc(f.mountLinks(ctx), func(l Link) bool {
		return l.State != Problem || l.rank != meaning.Answered
	})
}

// mounted returns the claim, and where it is mounted, whose path in a container a text names; else
// the only one of the pod, or a container that can write nowhere else.
func (f *podFacts) mounted(
	said string,
) (at corev1.VolumeMount, of *claimFacts, sealed string) {
	all := map[string]*claimFacts{}
	for _, c := range slices.Concat(f.pod.Spec.InitContainers, f.pod.Spec.Containers) {
		rights := ptr.Deref(c.SecurityContext, corev1.SecurityContext{})
		if ptr.Deref(rights.ReadOnlyRootFilesystem, false) {
			sealed = "container " + c.Name
		}
		for _, m := range c.VolumeMounts {
			i := slices.IndexFunc(f.claims, func(one *claimFacts) bool {
				return one.claim.Name == claimName(f.pod, f.volume(m))
			})
			switch {
			case i < 0:
			case strings.Contains(said, m.MountPath):
				return m, f.claims[i], ""
			default:
				at, all[f.claims[i].claim.Name] = m, f.claims[i]
			}
		}
	}
	if len(all) != 1 || sealed != "" {
		return corev1.VolumeMount{}, nil, sealed
	}
	return at, all[claimName(f.pod, f.volume(at))], ""
}

// volume returns the volume of the pod that is mounted, an empty one if there is none.
func (f *podFacts) volume(m corev1.VolumeMount) corev1.Volume {
	for _, v := range f.pod.Spec.Volumes {
		if v.Name == m.Name {
			return v
		}
	}
	return corev1.Volume{}
}

// readOnly returns the field because of which nobody can write to a mounted claim, "" for none.
func (f *claimFacts) readOnly(v corev1.Volume, m corev1.VolumeMount) string {
	switch {
	case f == nil:
	case m.ReadOnly:
		return "volumeMounts.readOnly of the pod"
	case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly:
		return "persistentVolumeClaim.readOnly of the pod"
	case f.volume == nil:
	case slices.Contains(f.volume.Spec.MountOptions, "ro"):
		return "mountOptions of PersistentVolume " + f.volume.Name
	case f.volume.Spec.CSI != nil && f.volume.Spec.CSI.ReadOnly:
		return "csi.readOnly of PersistentVolume " + f.volume.Name
	}
	return ""
}
