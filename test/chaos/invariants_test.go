//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

const (
	// ownPrefix is the prefix of the names of objects that are no part of the state.
	ownPrefix = "chaos-"
	// quiet is how long no operator writes after it has converged.
	quiet = 3 * time.Second
)

// resources returns the resources of the objects that operators and users create.
func resources() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for group, names := range map[string]string{
		"":                             "configmaps secrets services serviceaccounts",
		"apps":                         "deployments daemonsets",
		"policy":                       "poddisruptionbudgets",
		"networking.k8s.io":            "networkpolicies",
		"rbac.authorization.k8s.io":    "roles rolebindings clusterroles clusterrolebindings",
		"storage.k8s.io":               "storageclasses csidrivers",
		"snapshot.storage.k8s.io":      "volumesnapshotclasses",
		"monitoring.coreos.com":        "servicemonitors",
		"operator.openshift.io":        "clustercsidrivers",
		"admissionregistration.k8s.io": "validatingwebhookconfigurations",
	} {
		for name := range strings.FieldsSeq(names) {
			all = append(all, schema.GroupVersionResource{Group: group, Version: "v1", Resource: name})
		}
	}
	return all
}

// object is an object of a cluster.
type object struct {
	*unstructured.Unstructured

	side     *side
	resource schema.GroupVersionResource
}

// key returns the identity in messages and states.
func (o object) key() string {
	return o.side.name + " " + o.resource.Resource + " " + o.GetNamespace() + "/" + o.GetName()
}

// isWorkload returns true for a Deployment or a DaemonSet.
func (o object) isWorkload() bool { return o.resource.Group == "apps" }

// isHashKey returns true for the Secret with a random key of an operator. A new key changes the
// hashes in all workloads.
func (o object) isHashKey() bool { return strings.HasSuffix(o.GetName(), "-hash-key") }

// content returns what must not change.
func (o object) content() map[string]any {
	copied := o.DeepCopy().Object
	for _, path := range []string{
		"metadata managedFields", "metadata resourceVersion", "metadata uid", "metadata generation",
		"metadata creationTimestamp", "metadata ownerReferences", "status",
		"spec clusterIP", "spec clusterIPs", // of Services
		"metadata annotations deployment.kubernetes.io/revision",
		"metadata annotations deprecated.daemonset.template.generation",
		"metadata annotations storage.openshift.io/stable-generation",
	} {
		unstructured.RemoveNestedField(copied, strings.Fields(path)...)
	}
	return copied
}

// state contains objects by their keys.
type state map[string]object

// list reads all objects of both sides.
func (w *world) list() (state, error) {
	all := state{}
	for _, s := range w.sides() {
		for _, resource := range resources() {
			list, err := s.dynamic.Resource(resource).List(w.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // a fault has deleted the CRD
			}
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
			}
			for i := range list.Items {
				one := object{&list.Items[i], s, resource}
				if !strings.HasPrefix(one.GetName(), ownPrefix) &&
					!strings.HasPrefix(one.GetNamespace(), "kube-") {
					all[one.key()] = one
				}
			}
		}
	}
	return all, nil
}

func (w *world) snapshot() state {
	w.Helper()
	all, err := w.list()
	w.must(err)
	return all
}

// objects returns the objects of before that the filter accepts, in the order of their keys.
func (w *world) objects(accept func(object) bool) []object {
	var found []object
	for _, key := range slices.Sorted(maps.Keys(w.before)) {
		if accept(w.before[key]) {
			found = append(found, w.before[key])
		}
	}
	return found
}

// isOwned returns true for an object that an operator created.
func (w *world) isOwned(o object) bool {
	_, foreign := w.foreign[o.key()]
	return !foreign
}

// equal returns nil if the objects are the same as before, with the same content.
func (s state) equal(before state) error {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		now, found := s[key]
		if !found {
			return fmt.Errorf("%s is gone", key)
		}
		if diff := cmp.Diff(before[key].content(), now.content()); diff != "" {
			if now.resource.Resource == "secrets" {
				diff = "(a Secret)"
			}
			return fmt.Errorf("%s differs (-before +now):\n%s", key, diff)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if _, found := before[key]; !found {
			return fmt.Errorf("%s is new", key)
		}
	}
	return nil
}

// patch merges JSON into an object.
func (o object) patch(w *world, text string) error {
	_, err := o.side.dynamic.Resource(o.resource).Namespace(o.GetNamespace()).
		Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
	return err
}

// isAddons returns true for an object of CSI-Addons, which an operator reads every two minutes.
func (o object) isAddons() bool { return strings.Contains(o.GetName(), "csi-addons") }

// drift changes objects that operators created, and that they repair soon.
func (w *world) drift(random *rand.Rand) {
	w.Helper()
	if w.before == nil {
		return // the operators still create them
	}
	for _, change := range []struct{ resource, patch string }{
		{"clusterrolebindings", `{"subjects":null}`},
		{"clusterroles", `{"rules":null}`},
		{"poddisruptionbudgets", `{"spec":{"maxUnavailable":3}}`},
	} {
		one := pick(random, w.objects(func(o object) bool {
			return o.resource.Resource == change.resource && w.isOwned(o) && !o.isAddons()
		}))
		w.eventually(soon, func() error { return one.patch(w, change.patch) })
	}
}

// converged returns nil if the drivers are ready, the objects are those of before, and a replica of
// each program leads that has renewed its Lease after a mark.
func (w *world) converged(healed int) error {
	for _, p := range w.programs {
		leader := w.leader(p)
		renewed := w.journal.since(healed, func(c *call) bool {
			return c.isElection() && c.replica == leader && c.succeeded()
		})
		if leader == nil || leader.running() == nil || len(renewed) == 0 {
			return fmt.Errorf("no replica of %s leads", p.name)
		}
	}
	for _, r := range w.replicas() {
		calls := w.journal.since(healed, func(c *call) bool { return c.replica == r && c.code != 0 })
		if n := len(calls); n > 0 && calls[n-1].code == http.StatusUnauthorized {
			return fmt.Errorf("the API server refuses the token of %s", r.name)
		}
	}
	var types []string
	for _, t := range w.cloud.ShareTypes() {
		types = append(types, t.Name)
	}
	found, err := w.source.Read(w.Context(), types)
	if err != nil {
		return err
	}
	if len(found.Missing) > 0 {
		return errors.New(strings.Join(found.Missing, "; "))
	}
	if w.before == nil {
		return nil
	}
	now, err := w.list()
	if err != nil {
		return err
	}
	return now.equal(w.before)
}

// awaitQuiet waits until no program has written for a while.
func (w *world) awaitQuiet(bound time.Duration) {
	w.Helper()
	mark, watch := w.journal.mark(), stopwatch.Start()
	w.eventually(bound, func() error {
		if writes := w.journal.since(mark, (*call).isWrite); len(writes) > 0 {
			mark, watch = w.journal.mark(), stopwatch.Start()
			return fmt.Errorf("the programs keep writing: %v", writes[len(writes)-1])
		}
		if watch.Elapsed() < quiet {
			return errors.New("the programs have just written")
		}
		return nil
	})
}

// isElection returns true for a write of a Lease.
func (c *call) isElection() bool {
	return c.info.Resource == "leases" && slices.Contains([]string{"create", "update", "patch"},
		c.info.Verb)
}

// leader returns the replica that wrote the Lease of the program last, or nil if its process has
// ended since.
func (w *world) leader(p *program) *replica {
	leases := w.journal.of(p, 0, func(c *call) bool { return c.isElection() && c.succeeded() })
	if len(leases) == 0 {
		return nil
	}
	last := slices.MaxFunc(leases, func(a, b call) int { return a.answered.Compare(b.answered) })
	if last.began.Before(last.replica.since()) {
		return nil
	}
	return last.replica
}

func (c call) String() string {
	return fmt.Sprintf("%s %s: %s %s/%s %s/%s on %s: %d", c.began.Format("15:04:05.000"),
		c.replica.name, c.info.Verb, c.info.Resource, c.info.Subresource, c.info.Namespace, c.info.Name,
		c.side.name, c.code)
}

// checkCalls checks what the programs sent since a mark. It returns the most writes and requests of
// a program.
func (w *world) checkCalls(f fault, mark int) (mostWrites, mostRequests int) {
	w.Helper()
	for _, c := range w.journal.since(mark, all) {
		refused := c.code == http.StatusForbidden && !f.isForbidden ||
			c.code == http.StatusUnauthorized && !f.isUnauthorized
		deletes := c.info.Verb == "delete" || c.info.Verb == "deletecollection"
		switch {
		case refused:
			w.Errorf("the API server refused a request: %v", c)
		case deletes && c.succeeded():
			w.Errorf("a program deleted an object: %v", c)
		}
	}
	for _, p := range w.programs {
		w.checkLeaders(p, mark)
		writes, requests := w.journal.of(p, mark, (*call).isWrite), w.journal.of(p, mark, all)
		w.Logf("%s: %v", p.name, kinds(writes))
		if limit := f.writes + 4*w.edits; len(writes) > limit {
			w.Errorf("%s sent %d writes, want %d at most", p.name, len(writes), limit)
		}
		if limit := f.requests + 20*w.edits; len(requests) > limit {
			w.Errorf("%s sent %d requests, want %d at most: %v", p.name, len(requests), limit,
				kinds(requests))
		}
		mostWrites, mostRequests = max(mostWrites, len(writes)), max(mostRequests, len(requests))
	}
	return mostWrites, mostRequests
}

// kinds counts requests.
func kinds(calls []call) map[string]int {
	counts := map[string]int{}
	for _, c := range calls {
		counts[fmt.Sprint(c.info.Verb, " ", c.info.Resource, " ", c.code)]++
	}
	return counts
}

// checkLeaders checks that only the replica writes that wrote the Lease last.
func (w *world) checkLeaders(p *program, mark int) {
	w.Helper()
	leases := w.journal.of(p, 0, func(c *call) bool { return c.isElection() && c.succeeded() })
	slices.SortFunc(leases, func(a, b call) int { return a.answered.Compare(b.answered) })
	for _, write := range w.journal.of(p, mark, func(c *call) bool {
		return c.isWrite() && c.succeeded()
	}) {
		i, _ := slices.BinarySearchFunc(leases, write.began, func(lease call, at time.Time) int {
			return lease.answered.Compare(at)
		})
		if i == 0 || leases[i-1].replica != write.replica {
			w.Errorf("a replica writes that does not lead: %v", write)
		}
	}
}

// checkObjects checks that no object was replaced except those that the fault deleted, and that no
// workload was rolled out without a reason. What exists now is the state before the next fault.
func (w *world) checkObjects(f fault) {
	w.Helper()
	now := w.snapshot()
	for key, was := range w.before {
		is, found := now[key]
		switch {
		case w.deleted(key):
		case !found:
			w.Errorf("%s is gone", key)
		case is.GetUID() != was.GetUID():
			w.Errorf("%s was replaced", key)
		case is.isWorkload() && is.GetGeneration() != was.GetGeneration() && !f.rolls:
			w.Errorf("%s was rolled out: generation %d, then %d", key, was.GetGeneration(),
				is.GetGeneration())
		}
	}
	w.before = now
}

// checkLogs checks that no program has crashed.
func (w *world) checkLogs() {
	w.Helper()
	for _, r := range append(w.replicas(), w.addons.sidecar) {
		text, err := os.ReadFile(r.options.Log) // of all its processes
		w.must(err)
		for _, crash := range []string{"panic:", "Observed a panic", "DATA RACE", "fatal error:"} {
			if _, rest, found := strings.Cut(string(text), crash); found {
				w.Errorf("%s: %s%s", r.name, crash, rest[:min(len(rest), 3000)])
			}
		}
	}
}

// role is a process while it leads, or while it does not.
type role struct {
	*replica

	process *process.Process
	leads   bool
}

// measure adds a sample of each process.
func (w *world) measure() {
	w.Helper()
	for _, r := range w.replicas() {
		if p := r.running(); p != nil {
			var used usage
			// A fault may have broken a connection to the API server: Prometheus also reads again.
			w.eventually(soon, func() (err error) {
				used, err = r.measure(w.Context(), w.scraper)
				return err
			})
			one := role{r, p, w.leader(r.program) == r}
			w.samples[one] = append(w.samples[one], used)
		}
	}
}

// checkGrowth compares what each process used first and last, while it led or did not lead. Fewer
// than eight samples say nothing, but there is another process of each program.
func (w *world) checkGrowth() {
	w.Helper()
	compared := map[*program]bool{}
	for one, samples := range w.samples {
		const least, tenth = 8, 10
		if len(samples) < least {
			continue
		}
		compared[one.program] = true
		var most [2]usage // of each half: the first samples show the start, which uses most memory
		for i, s := range samples {
			half := &most[2*i/len(samples)]
			half.goroutines, half.memory = max(half.goroutines, s.goroutines), max(half.memory, s.memory)
		}
		first, last := most[0], most[1]
		w.Logf("%s, %d samples: %.0f goroutines and %.0f MB at most in the first half, %.0f and %.0f in "+
			"the second", one.name, len(samples), first.goroutines, first.memory, last.goroutines,
			last.memory)
		if last.goroutines > first.goroutines*(tenth+1)/tenth+tenth ||
			last.memory > first.memory*(tenth+1)/tenth+tenth {
			w.Errorf("%s grows", one.name)
		}
	}
	for _, p := range w.programs {
		if !compared[p] {
			w.Errorf("no process of %s ran long enough to show whether it grows", p.name)
		}
	}
}
