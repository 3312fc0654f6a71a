package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
)

const (
	// checkLabel is the label of the DaemonSet and its pods. Its value differs for each check.
	checkLabel = "csi.openstack.org/node-check"
	// patience is how many intervals without a report end the check, and cleanUp limits its end.
	patience, cleanUp = 30, 10 * time.Second
)

// daemonSet returns the pods of the check. They have the default priority, so that they replace no
// other pod, and no token.
func (n *nodeCheck) daemonSet() *appsv1.DaemonSet {
	from, run := n.plugin.Spec.Template.Spec, rand.String(8)
	folder := strings.TrimPrefix(workload{pod: from}.kubeletDir(), "/")
	if folder == "" {
		folder = defaultKubeletDir[1:]
	}
	probe := corev1.Container{
		Name: "probe", Image: n.image, ImagePullPolicy: from.Containers[0].ImagePullPolicy,
		Args: []string{
			"probe-node", "--pod-folder=" + folder + "/pods/$(POD_UID)",
			"--servers=" + strings.Join(n.addresses, ","),
		},
		Env: []corev1.EnvVar{{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
		}}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			Privileged: ptr.To(true), RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(true),
		},
	}
	wait := corev1.Container{
		Name: "wait", Image: n.image, ImagePullPolicy: probe.ImagePullPolicy,
		Args: []string{"probe-node", "--wait"},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	set := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
		Selector: metav1.SetAsLabelSelector(map[string]string{checkLabel: run}),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			HostNetwork: true, HostPID: true, NodeSelector: from.NodeSelector,
			InitContainers: []corev1.Container{probe}, Containers: []corev1.Container{wait},
			ServiceAccountName: from.ServiceAccountName, ImagePullSecrets: from.ImagePullSecrets,
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](1),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}},
	}}
	set.Namespace, set.Name = n.plugin.Namespace, "openstack-csi-check-nodes-"+run
	set.Labels = map[string]string{checkLabel: run, partLabel: partOf} // uninstall deletes it, too
	set.Spec.Template.Labels = map[string]string{checkLabel: run}
	return set
}

// probe runs the pods until all nodes have reported, or none has for a while.
func (n *nodeCheck) probe(ctx context.Context) error {
	set := n.daemonSet()
	fmt.Fprintf(n.Err, "Checking %d nodes with DaemonSet %s/%s\n", len(n.waiting), set.Namespace,
		set.Name)
	pods, err := n.watch(ctx, set)
	if err != nil {
		return fmt.Errorf("watching the pods of the check: %w", err)
	}
	defer func() { pods.Stop() }()
	if err := n.guest.Create(ctx, set); err != nil {
		return fmt.Errorf("creating the DaemonSet of the check: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if err := n.delete(ctx, set); err != nil {
			fmt.Fprintf(n.Err, "%v. Run: kubectl openstack-csi check --nodes --clean\n", err)
		}
	}()
	ticks, idle, begun := time.NewTicker(n.interval), 0, false
	defer ticks.Stop()
	for stream := pods.ResultChan(); len(n.waiting) > 0 && idle < patience; {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil // the other nodes have reported
			}
			return ctx.Err()
		case e, open := <-stream:
			if pod, ok := e.Object.(*corev1.Pod); ok {
				begun = true
				if n.take(pod) {
					idle = 0
				}
			} else if !open {
				stream = nil
			}
		case <-ticks.C:
			idle++
			w := diagnosis.Workload{}
			if !begun {
				w.Failure = diagnosis.FailedCreate(events(ctx, n.guest, set))
			}
			if _, trouble, _ := w.Trouble(); trouble != "" {
				return errors.New("pods of the check: " + trouble)
			}
			if stream == nil { // the API server ends a watch after a time
				if pods, err = n.watch(ctx, set); err != nil {
					return fmt.Errorf("watching the pods of the check: %w", err)
				}
				stream = pods.ResultChan()
			}
		}
	}
	return nil
}

// watch also returns the pods that exist already.
func (n *nodeCheck) watch(ctx context.Context, set *appsv1.DaemonSet) (watch.Interface, error) {
	return n.guest.Watch(ctx, &corev1.PodList{}, client.InNamespace(set.Namespace),
		client.MatchingLabels(set.Spec.Template.Labels))
}

// take takes the report of a node from its pod. It returns whether there is one.
func (n *nodeCheck) take(pod *corev1.Pod) bool {
	node := n.waiting[pod.Spec.NodeName]
	if node == nil {
		return false
	}
	for _, c := range pod.Status.InitContainerStatuses {
		ended := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if ended == nil {
			continue
		}
		result, err := nodeprobe.Parse(ended.Message)
		if ended.ExitCode != 0 {
			err = errors.New(diagnosis.Short(ended.Message))
		}
		if node.Why = "failed the check: "; err != nil {
			node.Why += err.Error()
		} else {
			node.Why, node.Result = "", &result
		}
		delete(n.waiting, node.Name)
		return true
	}
	if _, _, trouble := diagnosis.PodTrouble(pod); trouble != "" {
		node.Why = "is not done with the check: " + trouble
	}
	return false
}

func (n *nodeCheck) delete(ctx context.Context, set client.Object) error {
	err := n.guest.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting DaemonSet %s/%s: %w", set.GetNamespace(), set.GetName(), err)
	}
	return nil
}
