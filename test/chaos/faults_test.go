//go:build chaos

package chaos

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// fault is something that fails, and what the programs owe afterwards.
type fault struct {
	name string
	// bound is the time in which the programs converge after the fault.
	bound time.Duration
	// writes and requests limit what each program sends from the start of the fault until it has
	// converged, beside what it may send for each change that the fault makes. While requests are
	// refused, each controller tries to write its condition, less and less often.
	writes, requests int
	mode
	// inject causes the fault and ends it.
	inject func(w *world, random *rand.Rand) error
}

// mode describes what a fault affects.
type mode struct {
	// isProcess says that the fault ends or freezes programs. isForbidden and isUnauthorized say that
	// the API server refuses requests or tokens during the fault. rolls says that the fault changes
	// inputs of workloads.
	isProcess, isForbidden, isUnauthorized, rolls bool
}

// faults returns all faults.
func faults() []fault {
	const s = time.Second
	return []fault{
		{"leader-killed", 60 * s, 30, 1500, mode{isProcess: true}, killLeader},
		{"leader-frozen", 60 * s, 30, 1500, mode{isProcess: true}, freezeLeader},
		killed(5),
		// A new API server refuses requests until it has read the roles.
		{
			"api-server-restarted", 90 * s, 200, 2000,
			mode{isForbidden: true},
			stopAPI(controlplane.Refuse),
		},
		{"api-server-hangs", 90 * s, 60, 2000, mode{}, stopAPI(controlplane.Hang)},
		{"requests-fail", 60 * s, 300, 4000, mode{}, failRequests},
		{"watches-cut", 60 * s, 30, 3000, mode{}, cutWatches},
		{"etcd-paused", 90 * s, 60, 2000, mode{}, pauseEtcd},
		{"tokens-expired", 90 * s, 200, 2000, mode{isUnauthorized: true}, expireTokens},
		{"keystone-flaps", 60 * s, 60, 1500, mode{}, flapKeystone},
		{"objects-edited", 90 * s, 60, 1500, mode{rolls: true}, editObjects},
		{"objects-deleted", 60 * s, 60, 1500, mode{}, deleteObjects},
		{"crd-deleted", 90 * s, 300, 1500, mode{}, deleteCRD},
		{"namespace-deleted", 90 * s, 300, 2000, mode{isForbidden: true}, deleteNamespace},
		// What a webhook denies is tried again soon, and then less and less often.
		{"webhook-refuses", 60 * s, 120, 1500, mode{}, refuseByWebhook},
	}
}

// installed returns the first fault: the programs are killed while they install everything.
func installed(kills int) fault {
	writes, requests := 300+20*kills, 2000+400*kills
	return fault{
		"install", installBound, writes, requests, mode{isProcess: true}, killOperators(kills),
	}
}

// killed returns a fault that kills operators.
func killed(times int) fault {
	writes, requests := 20+5*times, 1000+200*times
	return fault{
		"operators-killed", time.Minute, writes, requests, mode{isProcess: true}, killOperators(times),
	}
}

// between returns a random duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

func pick[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

// awaitLeader waits until a running replica leads a program.
func (w *world) awaitLeader(p *program) *replica {
	w.Helper()
	var found *replica
	w.eventually(soon, func() error {
		if found = w.leader(p); found == nil || found.running() == nil {
			return fmt.Errorf("no replica of %s leads", p.name)
		}
		return nil
	})
	return found
}

// leaderAtWork returns the leader of a program while it repairs objects.
func (w *world) leaderAtWork(random *rand.Rand) *replica {
	w.Helper()
	leader := w.awaitLeader(pick(random, w.programs))
	w.drift(random)
	w.pause(between(random, 0, 300*time.Millisecond))
	return leader
}

func killLeader(w *world, random *rand.Rand) error {
	w.leaderAtWork(random).kill()
	return nil
}

// freezeLeader freezes a leader until another one has taken over, and lets both run.
func freezeLeader(w *world, random *rand.Rand) error {
	leader := w.leaderAtWork(random)
	if err := leader.freeze(); err != nil {
		return err
	}
	defer leader.thaw()
	w.eventually(soon, func() error {
		if next := w.leader(leader.program); next == nil || next == leader {
			return errors.New("no other replica leads")
		}
		return nil
	})
	w.pause(between(random, 0, 3*time.Second))
	return nil
}

// killOperators starts the programs if they do not run, and kills leaders several times in the
// middle of their work.
func killOperators(times int) func(*world, *rand.Rand) error {
	return func(w *world, random *rand.Rand) error {
		if w.before == nil {
			w.startOperators()
			w.startAddons()
		}
		for range times {
			w.drift(random)
			w.killAtWork(random)
		}
		return nil
	}
}

// killAtWork kills a leader after a random number of writes, or after a while, and clears its
// Lease, so that the next one need not wait.
func (w *world) killAtWork(random *rand.Rand) {
	w.Helper()
	leader := w.awaitLeader(pick(random, w.programs))
	const mostWrites, longest = 40, 3 * time.Second
	writes, deadline := random.IntN(mostWrites), time.Now().Add(between(random, 0, longest))
	mark := w.journal.mark()
	for time.Now().Before(deadline) && len(w.journal.since(mark, func(c *call) bool {
		return c.replica == leader && c.isWrite()
	})) < writes {
		w.pause(pollEvery / 10)
	}
	leader.kill()
	leases := w.journal.since(0, func(c *call) bool { return c.isElection() && c.replica == leader })
	last := leases[len(leases)-1]
	_, err := last.side.kube.CoordinationV1().Leases(last.info.Namespace).Patch(w.Context(),
		last.info.Name, types.MergePatchType, []byte(`{"spec":{"holderIdentity":""}}`),
		metav1.PatchOptions{})
	w.must(err)
}

func stopAPI(how controlplane.How) func(*world, *rand.Rand) error {
	return func(w *world, random *rand.Rand) error {
		side, guest := flavour.Side(pick(random, w.sides()).name), w.env.Guest
		if err := w.cluster.StopAPI(w.Context(), side, guest, how); err != nil {
			return err
		}
		w.pause(between(random, time.Second, 8*time.Second))
		return w.cluster.StartAPI(w.Context(), side, guest)
	}
}

// failRequests lets a tenth of the requests fail while the operators repair objects.
func failRequests(w *world, random *rand.Rand) error {
	const tenth = 0.1
	w.trouble.fail(tenth)
	defer w.trouble.fail(0)
	for range 4 {
		w.drift(random)
		w.cutWatches() // the operators list and watch again
		w.pause(between(random, 2*time.Second, 4*time.Second))
	}
	return nil
}

// cutWatches breaks all watches each second.
func cutWatches(w *world, random *rand.Rand) error {
	for range 8 + random.IntN(5) {
		w.cutWatches()
		w.pause(time.Second)
	}
	w.drift(random)
	w.cutWatches()
	return nil
}

func pauseEtcd(w *world, random *rand.Rand) error {
	w.drift(random)
	dir := pick(random, []paths.Dir{w.dir, w.env.Dir}) // standalone they are the same
	found := process.Find(filepath.Join(dir.ControlPlanes(), "main"),
		filepath.Join(w.kubernetes, "etcd"))
	if len(found) != 1 {
		return fmt.Errorf("found %d processes of etcd", len(found))
	}
	if err := syscall.Kill(found[0], syscall.SIGSTOP); err != nil {
		return err
	}
	w.pause(between(random, 2*time.Second, 9*time.Second))
	return syscall.Kill(found[0], syscall.SIGCONT)
}

// expireTokens makes Keystone and the API servers refuse all tokens. The programs get new ones
// later.
func expireTokens(w *world, random *rand.Rand) error {
	w.cloud.RevokeTokens()
	mark := w.journal.mark()
	for _, p := range w.programs {
		err := p.side.kube.CoreV1().Secrets(p.namespace).
			Delete(w.Context(), p.tokenSecret(), metav1.DeleteOptions{})
		if err != nil {
			return err
		}
	}
	w.eventually(soon, func() error { // the API server remembers tokens for ten seconds
		for _, p := range w.programs {
			refused := func(c *call) bool { return c.code == http.StatusUnauthorized }
			if len(w.journal.of(p, mark, refused)) == 0 {
				return fmt.Errorf("the API server does not refuse %s", p.name)
			}
		}
		return nil
	})
	w.pause(between(random, 0, 5*time.Second))
	w.renewTokens(w.programs...)
	return nil
}

func flapKeystone(w *world, random *rand.Rand) error {
	for range 3 + random.IntN(4) {
		failure, err := w.cloud.SetFault(pick(random, []simulator.Fault{
			{Mode: simulator.Unreachable},
			{Mode: simulator.Hang, Service: simulator.Identity},
			{Mode: simulator.Status, Status: http.StatusServiceUnavailable, Service: simulator.Identity},
			{Mode: simulator.Status, Status: http.StatusUnauthorized, Service: simulator.Identity},
			{Mode: simulator.Garbage, Service: simulator.Identity},
			{Mode: simulator.Reset},
		}))
		if err != nil {
			return err
		}
		w.cloud.RevokeTokens()
		w.pause(between(random, 500*time.Millisecond, 3*time.Second))
		if err := w.cloud.ClearFaults(failure.ID); err != nil {
			return err
		}
		w.pause(between(random, 0, 2*time.Second))
	}
	return nil
}

// editObjects edits ConfigMaps, Secrets and ClusterCSIDrivers in a tight loop, and restores those
// that no operator owns.
func editObjects(w *world, random *rand.Rand) error {
	edited := w.objects(func(o object) bool {
		resources, name := []string{"configmaps", "secrets", "clustercsidrivers"}, o.GetName()
		return slices.Contains(resources, o.resource.Resource) && name != "kube-root-ca.crt" &&
			!strings.Contains(name, "kubeconfig") && !o.isHashKey()
	})
	for end := time.Now().Add(between(random, 4*time.Second, 8*time.Second)); time.Now().Before(end); {
		one := pick(random, edited)
		changes := []string{fmt.Sprintf(`{"metadata":{"annotations":{"chaos":"%d"}}}`, w.edits)}
		if one.resource.Resource == "clustercsidrivers" {
			for _, level := range []string{"Normal", "Debug", "TraceAll"} {
				changes = append(changes, `{"spec":{"logLevel":"`+level+`"}}`)
			}
		} else {
			changes = append(changes, `{"data":null}`, `{"data":{"chaos":"Y2hhb3M="}}`)
		}
		// Some Secrets have required keys.
		if err := one.patch(w, pick(random, changes)); err != nil && !apierrors.IsInvalid(err) {
			return err
		}
		w.edits++
		w.pause(between(random, 0, 40*time.Millisecond))
	}
	var errs []error
	for _, one := range edited {
		if !w.isOwned(one) {
			errs = append(errs, w.restore(one))
		}
		errs = append(errs, one.patch(w, `{"metadata":{"annotations":{"chaos":null}}}`))
	}
	return errors.Join(errs...)
}

// restore writes the content of an object that existed before.
func (w *world) restore(o object) error {
	content := &unstructured.Unstructured{Object: o.content()}
	client := o.side.dynamic.Resource(o.resource).Namespace(o.GetNamespace())
	found, err := client.Get(w.Context(), o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(w.Context(), content, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	content.SetResourceVersion(found.GetResourceVersion())
	_, err = client.Update(w.Context(), content, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // the operator writes some of them, too
		return w.restore(o)
	}
	return err
}

// deleteObjects deletes objects that the operators own.
func deleteObjects(w *world, random *rand.Rand) error {
	owned := w.objects(func(o object) bool {
		return w.isOwned(o) && !o.isHashKey() && !o.isAddons()
	})
	deleted := map[string]bool{}
	w.deleted = func(key string) bool { return deleted[key] }
	for range 3 + random.IntN(6) {
		one := pick(random, owned)
		deleted[one.key()] = true
		w.edits++
		err := one.side.dynamic.Resource(one.resource).Namespace(one.GetNamespace()).
			Delete(w.Context(), one.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		w.pause(between(random, 0, time.Second))
	}
	return nil
}

// deleteCRD deletes a CustomResourceDefinition with all its objects, and creates it again.
func deleteCRD(w *world, random *rand.Rand) error {
	name := pick(random, []string{
		"clustercsidrivers.operator.openshift.io", "csiaddonsnodes.csiaddons.openshift.io",
		"volumesnapshotclasses.snapshot.storage.k8s.io", "servicemonitors.monitoring.coreos.com",
	})
	w.Logf("the CRD is %s", name)
	resource, _, _ := strings.Cut(name, ".")
	w.deleted = func(key string) bool { return strings.HasPrefix(key, w.guest.name+" "+resource+" ") }
	return w.replace(random, name, schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
}

// deleteNamespace deletes the namespace of Manila's driver, and creates it again.
func deleteNamespace(w *world, random *rand.Rand) error {
	const name = "openshift-manila-csi-driver"
	w.deleted = func(key string) bool {
		return strings.HasPrefix(key, w.guest.name+" ") && strings.Contains(key, " "+name+"/")
	}
	return w.replace(random, name, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
}

// replace deletes an object that contains others, creates it again, and then the deleted objects
// that no operator owns.
func (w *world) replace(
	random *rand.Rand, name string, resource schema.GroupVersionResource,
) error {
	client := w.guest.dynamic.Resource(resource)
	found, err := client.Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := client.Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	w.eventually(soon, func() error {
		if _, err := client.Get(w.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("%s still exists", name), err)
		}
		return nil
	})
	w.pause(between(random, 0, 5*time.Second))
	created := &unstructured.Unstructured{Object: object{Unstructured: found}.content()}
	if _, err := client.Create(w.Context(), created, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, one := range w.objects(func(o object) bool { return !w.isOwned(o) && w.deleted(o.key()) }) {
		w.edits++
		w.eventually(soon, func() error { return w.restore(one) })
	}
	return nil
}

// deny answers the API server that a request is not allowed.
func deny(response http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID}
	_ = json.NewEncoder(response).Encode(review) // the API server has closed the connection
}

// refuseByWebhook lets a webhook refuse what the programs write, either because it denies it or
// because nobody serves it.
func refuseByWebhook(w *world, random *rand.Rand) error {
	server := httptest.NewTLSServer(http.HandlerFunc(deny))
	defer server.Close()
	denies := random.IntN(2) == 0
	if !denies {
		server.Close()
	}
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
	}))
	resources := pick(random, []string{
		`["clusterrolebindings", "clusterroles", "poddisruptionbudgets"]`,
		`["clustercsidrivers/*", "configmaps", "secrets"]`, `["leases"]`, `["*"]`,
	})
	webhook := fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
  kind: ValidatingWebhookConfiguration, metadata: {name: chaos-webhook}, webhooks: [{
  name: chaos.example.com, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2,
  failurePolicy: Fail, clientConfig: {url: "%s", caBundle: %s}, matchConditions: [{name: programs,
  expression: "request.userInfo.username.matches('-operator$|^system:admin$|:csi-addons-')"}],
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE],
  resources: %s}]}]}`, server.URL, ca, resources)
	w.Logf("the webhook denies requests: %t; of %s", denies, resources)
	gvr := schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingwebhookconfigurations",
	}
	for _, s := range w.sides() {
		client := s.dynamic.Resource(gvr)
		created, err := client.Create(w.Context(), decode(w, webhook)[0], metav1.CreateOptions{})
		if err != nil {
			return err
		}
		defer func() { //nolint:revive // two sides at most.
			w.must(client.Delete(w.Context(), created.GetName(), metav1.DeleteOptions{}))
		}()
	}
	for range 3 {
		w.drift(random)
		w.pause(between(random, time.Second, 4*time.Second))
	}
	return nil
}
