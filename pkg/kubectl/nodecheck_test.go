package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// playedNodes are nodes whose pods end as play says, when a check creates its DaemonSet.
type playedNodes struct {
	client.WithWatch
	options *options

	names []string
	// play changes the report of a node, and its pod, which contains the report.
	play func(node string, r *nodeprobe.Result, pod *corev1.Pod)
	// refusal is the event of a DaemonSet whose pods are refused.
	refusal string
	// drops is how many watches the API server ends at once.
	drops int

	set  *appsv1.DaemonSet
	pods []*corev1.Pod
	to   []*watch.FakeWatcher
}

// serverID returns the ID of the server of a node.
func serverID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// play returns a cluster of n ready nodes: node-0 and so on.
func play(t *testing.T, n int, s *scenario) *playedNodes {
	t.Helper()
	p := &playedNodes{play: func(string, *nodeprobe.Result, *corev1.Pod) {}}
	s.Remove = append(s.Remove, "Node worker-1", "Node worker-2")
	for i := range n {
		p.names = append(p.names, fmt.Sprint("node-", i))
		node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "openstack://region/" + serverID(i)}}
		node.Name, node.Kind, node.APIVersion = p.names[i], "Node", "v1"
		node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
		assert.NilError(t, err)
		s.Objects = slices.Insert(s.Objects, 0, unstructured.Unstructured{Object: fields})
	}
	p.options = s.options(t)
	p.options.interval = time.Millisecond
	c, err := p.options.connect(nil)
	assert.NilError(t, err)
	p.WithWatch = interceptor.NewClient(c, interceptor.Funcs{Create: p.create, Watch: p.watch})
	connectTo(p.options, p)
	return p
}

func (p *playedNodes) watch(
	context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
) (watch.Interface, error) {
	stream := watch.NewFakeWithChanSize(len(p.names)+1, false)
	p.to = append(p.to, stream)
	p.send()
	return stream, nil
}

// send sends the pods to the last watch, unless the API server ends it.
func (p *playedNodes) send() {
	last := p.to[len(p.to)-1]
	if len(p.pods) > 0 && len(p.to) <= p.drops {
		last.Stop()
		return
	}
	for _, pod := range p.pods {
		last.Add(pod)
	}
}

func (p *playedNodes) create(
	ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
) error {
	set, isSet := o.(*appsv1.DaemonSet)
	if !isSet || len(p.to) == 0 {
		return c.Create(ctx, o, options...)
	}
	set.UID, p.set = "set", set
	if p.refusal != "" {
		e := &corev1.Event{Reason: "FailedCreate", Message: p.refusal}
		e.Namespace, e.Name, e.InvolvedObject.UID = set.Namespace, "refusal", set.UID
		return c.Create(ctx, e)
	}
	for i, name := range p.names {
		r := nodeprobe.Result{
			NFS: true, Kubelet: true, Metadata: serverID(i), DMI: serverID(i),
			Servers: map[string]string{"192.0.2.1": nodeprobe.Reached},
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name}}
		pod.Spec.NodeName = name
		ended := &corev1.ContainerStateTerminated{}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "probe", State: corev1.ContainerState{Terminated: ended},
		}}
		p.play(name, &r, pod)
		if text, err := json.Marshal(r); err == nil && ended.Message == "" {
			ended.Message = string(text)
		}
		p.pods = append(p.pods, pod)
	}
	p.send()
	return c.Create(ctx, set)
}

// check runs the command. Whatever happens, no DaemonSet of a check stays.
func (p *playedNodes) check(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	code, stdout, stderr := run(t, p.options, false, append([]string{"check", "--nodes"}, args...)...)
	var left appsv1.DaemonSetList
	assert.NilError(t, p.List(t.Context(), &left, client.HasLabels{checkLabel}))
	assert.Check(t, is.Len(left.Items, 0))
	return code, strings.Join(strings.Fields(stdout+stderr), " ")
}

func TestCheckNodesSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	waits := func(reason string) func(string, *nodeprobe.Result, *corev1.Pod) {
		return func(node string, _ *nodeprobe.Result, pod *corev1.Pod) {
			if node == "node-1" {
				pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"},
				}
			}
		}
	}
	ends := func(exit int32, message string) func(string, *nodeprobe.Result, *corev1.Pod) {
		return func(node string, _ *nodeprobe.Result, pod *corev1.Pod) {
			if ended := pod.Status.InitContainerStatuses[0].State.Terminated; node == "node-1" {
				ended.ExitCode, ended.Message = exit, message
			}
		}
	}
	reports := func(change func(*nodeprobe.Result)) func(string, *nodeprobe.Result, *corev1.Pod) {
		return func(node string, r *nodeprobe.Result, _ *corev1.Pod) {
			if node != "node-0" {
				change(r)
			}
		}
	}
	const rest = "node-0 ok 1/1 service ok ok 1/2 off "
	for want, play1 := range map[string]func(string, *nodeprobe.Result, *corev1.Pod){
		"!! node node-1 is not done with the check: container probe is in ImagePullBackOff": waits(
			"ImagePullBackOff"),
		"!! node node-1 is not done with the check: starts (PodInitializing)": waits("PodInitializing"),
		"!! node node-1 has started no pod of the check": func(
			node string, _ *nodeprobe.Result, pod *corev1.Pod,
		) {
			if node == "node-1" {
				pod.Spec.NodeName = ""
			}
		},
		`!! node node-1 failed the check: unknown command "probe-node"`: ends(1,
			`unknown command "probe-node"`),
		"!! node node-1 failed the check: its pod reported what the check never": ends(0,
			"\x1b[2J ok 1/1"),
		"node-2 missing 1/1 service ok ok -": reports(func(r *nodeprobe.Result) { r.NFS = false }),
		"!! node node-1, node-2 has no client of NFS in its kernel, so it mounts no share": reports(
			func(r *nodeprobe.Result) { r.NFS = false }),
		"node-2 ok 0/1 service ok ok - enforced !! node node-1, node-2 gets no connection to NFS " +
			"server 192.0.2.1, TCP 2049: timeout. Check network": reports(func(r *nodeprobe.Result) {
			r.Servers["192.0.2.1"], r.SELinux = "timeout", true
		}),
		"node-2 ok 1/1 none ok ok -": reports(func(r *nodeprobe.Result) { r.Metadata = "" }),
		"!! node node-1, node-2 has no config drive, and gets no answer of the metadata": reports(
			func(r *nodeprobe.Result) { r.Metadata = "" }),
		"!! node node-1, node-2 has the config drive of another server": reports(
			func(r *nodeprobe.Result) { r.ConfigDrive = serverID(9) }),
		"node-2 ok 1/1 service other ok -": reports(
			func(r *nodeprobe.Result) { r.Metadata = serverID(9) }),
		"!! node node-1, node-2 has a providerID of another server than its metadata": reports(
			func(r *nodeprobe.Result) { r.Metadata = serverID(9) }),
		"!! node node-1, node-2 has another folder of the kubelet than the drivers use. Compare": reports(
			func(r *nodeprobe.Result) { r.Kubelet = false }),
		"! node node-1 has no room for another volume of Cinder": nil,
	} {
		p := play(t, 3, &scenario{})
		p.attach(t, map[string]int{"node-0": 1, "node-1": 2})
		if play1 != nil {
			p.play = play1
		}
		code, got := p.check(t)
		assert.Check(t, strings.Contains(got, want) && strings.Contains(got, rest) &&
			(code == exitOK) == strings.HasPrefix(want, "! "), "want %s: exit code %d: %s", want, code, got)
	}
}

// attach makes two nodes have a limit of 2 volumes, and attaches volumes.
func (p *playedNodes) attach(t *testing.T, counts map[string]int) {
	t.Helper()
	for node, count := range counts {
		driver := storagev1.CSINodeDriver{Name: onOpenShift("cinder").name, NodeID: node}
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To[int32](2)}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		csi.Spec.Drivers = []storagev1.CSINodeDriver{driver}
		assert.NilError(t, p.Create(t.Context(), csi))
		for i := range count {
			a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(node, i)}}
			a.Spec.Attacher, a.Spec.NodeName = driver.Name, node
			assert.NilError(t, p.Create(t.Context(), a))
		}
	}
}

// The pods have no token, and replace nobody. An earlier check leaves nothing.
func TestCheckNodesIsSafe(t *testing.T) {
	t.Parallel()
	p := play(t, 2, &scenario{})
	p.drops = 2
	earlier := &appsv1.DaemonSet{}
	earlier.Namespace, earlier.Name = "openshift-manila-csi-driver", "openstack-csi-check-nodes-a"
	earlier.Labels = map[string]string{checkLabel: "a"}
	assert.NilError(t, p.WithWatch.Create(t.Context(), earlier.DeepCopy()))
	silent := &corev1.Node{}
	assert.NilError(t, p.Get(t.Context(), client.ObjectKey{Name: "node-1"}, silent))
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	assert.NilError(t, p.Status().Update(t.Context(), silent))
	code, got := p.check(t)
	assert.Check(t, code == exitFailed && strings.Contains(got, "node-0 ok") &&
		strings.Contains(got, "node-1 ?") && strings.Contains(got, "!! node node-1 has not answered for"),
		got)
	spec := p.set.Spec.Template.Spec
	assert.Check(t, !*spec.AutomountServiceAccountToken && len(spec.Volumes) == 0 &&
		spec.PriorityClassName == "" && spec.Tolerations[0].Operator == corev1.TolerationOpExists &&
		spec.InitContainers[0].Image == "quay.io/x/manila-csi-driver-operator:v0.1.0" &&
		slices.Equal(spec.InitContainers[0].Args[:2], []string{
			"probe-node", "--pod-folder=var/lib/kubelet/pods/$(POD_UID)",
		}), "%+v", spec)

	p.set, p.to = nil, nil
	assert.NilError(t, p.WithWatch.Create(t.Context(), earlier.DeepCopy()))
	code, got = p.check(t, "--clean")
	assert.Check(t, code == exitOK && p.set == nil && strings.Contains(got, "Deleting DaemonSet "+
		"openshift-manila-csi-driver/openstack-csi-check-nodes-a of an earlier check"), got)
}

func TestCheckNodesRefuses(t *testing.T) {
	t.Parallel()
	operators := []string{
		"Deployment manila-csi-driver-operator", "Deployment openstack-cinder-csi-driver-operator",
	}
	for want, test := range map[string]struct {
		s       scenario
		refusal string
		args    string
		code    int
	}{
		`pods of the check: no more can be created: violates PodSecurity "baseline"`: {
			refusal: `Error creating: pods "a-b" is forbidden: violates PodSecurity "baseline"`,
			code:    exitFailed,
		},
		"Name the image of one with --image": {s: scenario{Remove: operators}, code: exitUsage},
		"ok all 2 nodes can use volumes": {
			s: scenario{Remove: operators}, args: "--image=a", code: exitOK,
		},
		"no DaemonSet of a driver is visible": {
			s: scenario{Forbidden: []string{"DaemonSets"}}, code: exitFailed,
		},
		"no node on which the drivers run is visible": {
			s: scenario{Forbidden: []string{"Nodes"}}, code: exitFailed,
		},
		"which is neither for --values nor for -f": {args: "--values", code: exitUsage},
	} {
		p := play(t, 2, &test.s)
		p.refusal = test.refusal
		code, stdout, stderr := run(t, p.options, false,
			append([]string{"check", "--nodes"}, strings.Fields(test.args)...)...)
		got := strings.Join(strings.Fields(stdout+stderr), " ")
		assert.Check(t, code == test.code && strings.Contains(got, want), "want %s: exit code %d: %s",
			want, code, got)
	}
}

// Nova's list and the NFS servers of shares are compared on this machine.
func TestCheckNodesComparesWithOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	cloud.AddServer(simulator.Server{ID: serverID(0), Name: "node-0"})
	stock(t, cloud, "c1")
	p := play(t, 2, marked(t, "c1", nil))
	code, got := p.check(t, "--clouds="+clouds)
	assert.Check(t, code == exitFailed && strings.Contains(got,
		"!! node node-1 is a server that Nova does not list. Check whether "+clouds), got)
	args := p.set.Spec.Template.Spec.InitContainers[0].Args
	assert.Check(t, is.Contains(args, "--servers=127.0.0.1"))
	cloud.AddServer(simulator.Server{ID: serverID(1), Name: "node-1"})
	p.pods = nil
	code, got = p.check(t, "--clouds="+clouds)
	assert.Check(t, code == exitOK && strings.Contains(got, "ok all 2 nodes can use volumes"), got)
	for path, status := range map[string]int{
		"/compute/v2.1/servers": http.StatusForbidden, "/share/v2/shares": http.StatusServiceUnavailable,
	} {
		_, err := cloud.SetFault(simulator.Fault{
			Mode: simulator.Status, PathPrefix: path, Status: status,
		})
		assert.NilError(t, err)
	}
	p.pods = nil
	code, got = p.check(t, "--clouds="+clouds)
	assert.Check(t, code == exitOK && strings.Contains(got, "?? whether Nova knows the servers") &&
		strings.Contains(got, "?? all NFS servers: "), got)
}

// Servers of which everything that is known is the same are no finding, and others are one.
func TestServersAreCompared(t *testing.T) {
	t.Parallel()
	a, b := serverID(1), serverID(2)
	n := &nodeCheck{session: &session{guest: &cluster{}}, check: &check{}}
	n.installed = map[choice.Kind]driver{choice.Cinder: *onOpenShift("cinder")}
	for _, drive := range []string{"", nodeprobe.Unknown, a, b} {
		for _, metadata := range []string{"", a, b} {
			for _, provider := range []string{"", a, b} {
				for _, listed := range []map[string]bool{nil, {a: true}, {a: true, b: true}} {
					ids := slices.DeleteFunc([]string{drive, metadata, provider}, func(id string) bool {
						return id == "" || id == nodeprobe.Unknown
					})
					slices.Sort(ids)
					ids = slices.Compact(ids)
					unlisted := listed != nil && slices.ContainsFunc(ids,
						func(id string) bool { return !listed[id] })
					isWrong := len(ids) > 1 || drive+metadata == "" || unlisted
					n.servers = listed
					got := n.wrong(&Node{Server: provider, Result: &nodeprobe.Result{
						Kubelet: true, ConfigDrive: drive, Metadata: metadata, DMI: a,
					}})
					assert.Check(t, (len(got) > 0) == isWrong, "%q %q %q %v: %v", drive, metadata, provider,
						listed, got)
				}
			}
		}
	}
}

// Equal findings are one line.
func TestCheckNodesOfALargeCluster(t *testing.T) {
	t.Parallel()
	p := play(t, manyNodes, &scenario{})
	p.play = func(node string, r *nodeprobe.Result, _ *corev1.Pod) {
		if strings.HasSuffix(node, "7") {
			r.NFS = false
		}
	}
	begun := time.Now()
	code, got := p.check(t)
	t.Logf("%d nodes took %v", manyNodes, time.Since(begun))
	assert.Check(t, code == exitFailed && strings.Count(got, "node-") > manyNodes &&
		strings.Contains(got, "and 497 more has no client of NFS"), "%.300s", got)
}
