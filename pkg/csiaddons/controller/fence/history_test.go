package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	specfence "github.com/csi-addons/spec/lib/go/fence"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	adapter "github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/sharecloud"
)

// Histories of NetworkFences that everything goes wrong around: the controller, the adapter of
// Manila, and Manila itself in memory. SEED is the first of HISTORIES; `make chaos-fences` plays
// many. A failure names the seed that repeats it.
func TestFencesHoldWhateverHappens(t *testing.T) {
	t.Parallel()
	const usual = 1000
	number := func(name string, usual int) uint64 {
		n, err := strconv.ParseUint(cmp.Or(os.Getenv(name), strconv.Itoa(usual)), 10, 64)
		assert.NilError(t, err, "the variable %s", name)
		return n
	}
	first := number("SEED", 1)
	for seed := first; seed < first+number("HISTORIES", usual); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			within(t, func(w *world) { newHistory(w, seed).play() }, class(shareClass, manilaDriver))
		})
	}
}

const (
	manilaDriver = "manila" // that of world
	shareClass   = "shares"
	blue         = "blue"
	requestTime  = 50 * time.Millisecond
	// startLimit is the time in which a fence that is due starts if nothing keeps it.
	startLimit = 5 * time.Second
)

type history struct {
	*world

	random *rand.Rand
	logged sync.Mutex
	log    []string
	wrong  bool
	// cloud is Manila, and untouched the same shares as if nobody had ever fenced a client.
	cloud, untouched *sharecloud.Cloud
	ids              []string // of the shares that nobody has deleted
	adapter          *adapter.Controller

	mu sync.Mutex
	// pod ends with the pod of the adapter.
	pod    context.Context //nolint:containedctx // a fake pod has a lifetime
	endPod context.CancelFunc
	// stormy is the probability of a fault of a request, in percent.
	stormy int
	// free is since when nothing that a fence must wait for runs or is down, and down is whether the
	// API server, the controller or the driver is.
	free time.Time
	down map[string]bool
	// due are the fences that no call contains since they are due, and how long they may wait.
	due map[string]deadline
	// tampered are the shares to which somebody has added a rule, or that are new, since the last
	// verification began.
	tampered map[string]time.Time
	verified time.Time
}

// deadline is when a fence is due, and how often it has failed.
type deadline struct {
	since    time.Time
	failures int
	gen      int64
}

func newHistory(w *world, seed uint64) *history {
	h := &history{
		world: w, random: sharecloud.NewRandom(seed, seed),
		down: map[string]bool{}, due: map[string]deadline{}, tampered: map[string]time.Time{},
		free: time.Now(), verified: time.Now(),
	}
	config := sharecloud.Config{RequestTime: requestTime, ApplyTime: time.Second, Fault: h.fault}
	h.cloud, h.untouched = sharecloud.New(config), sharecloud.New(sharecloud.Config{})
	h.startPod()
	w.answer, w.slow = h.call, pick(h, 0, 20*time.Millisecond, 90*time.Millisecond)
	for range 2 + h.random.IntN(3) {
		h.addShare()
	}
	return h
}

func (h *history) note(format string, args ...any) {
	h.logged.Lock()
	defer h.logged.Unlock()
	h.log = append(h.log, time.Now().Format("15:04:05.0 ")+fmt.Sprintf(format, args...))
}

// fail notes what is wrong, and play ends the test.
func (h *history) fail(format string, args ...any) {
	h.note(format, args...)
	h.wrong = true
}

func pick[T any](h *history, values ...T) T { return values[h.random.IntN(len(values))] }

func (h *history) startPod() {
	h.pod, h.endPod = context.WithCancel(h.Context())
	h.adapter = adapter.NewController(adapter.Config{
		Cluster: blue, MaxRules: adapter.DefaultMaxRules,
		Volumes:       func(context.Context) ([]adapter.Volume, error) { return nil, nil },
		PluginVersion: func(context.Context) (string, error) { return "0.9.0@v1.36.0", nil },
		Connect: func(context.Context) (adapter.Shares, error) {
			return h.cloud.Shares(""), nil
		},
	})
}

func (h *history) fault(sharecloud.Call) sharecloud.Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.random.IntN(100) >= h.stormy {
		return sharecloud.Fault{}
	}
	down := &openstack.Error{Reason: openstack.CloudUnreachable, Message: "HTTP 503"}
	return pick(h, sharecloud.Fault{Err: down}, sharecloud.Fault{Err: down, Lost: true},
		sharecloud.Fault{Delay: 30 * time.Second})
}

// addresses are those of the clients whose access is compared; the last two are never fenced.
func addresses() []string {
	return []string{"10.0.0.5", "10.0.0.6", "10.0.1.7", "fd00::5", "10.0.2.8", "10.200.0.1"}
}

func (h *history) call(ctx context.Context, call string) error {
	state, list, _ := strings.Cut(call, " ")
	cidrs := strings.Split(list, ",")
	running := h.begin(state, cidrs)
	h.mu.Lock()
	pod, plugin := h.pod, h.adapter
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(pod, cancel)
	defer stop()
	var networks []*specfence.CIDR
	for _, cidr := range cidrs {
		networks = append(networks, &specfence.CIDR{Cidr: cidr})
	}
	var err error
	if state == "fence" {
		_, err = plugin.FenceClusterNetwork(ctx, &specfence.FenceClusterNetworkRequest{
			Cidrs: networks,
		})
	} else {
		_, err = plugin.UnfenceClusterNetwork(ctx, &specfence.UnfenceClusterNetworkRequest{
			Cidrs: networks,
		})
	}
	if err != nil && pod.Err() != nil {
		err = status.Error(codes.Unavailable, "the pod has ended")
	}
	h.end(running, err)
	return err
}

// played is a call that runs.
type played struct {
	// verifies means that no NetworkFence has started.
	verifies bool
	names    []string
	began    time.Time
}

// begin checks that the fences of a call did not wait for too long.
func (h *history) begin(state string, cidrs []string) played {
	all := h.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	now, p := time.Now(), played{verifies: state == "fence", began: time.Now()}
	for _, f := range all {
		if f.Spec.FenceState != v1alpha1.Fenced || state != "fence" ||
			!slices.Contains(cidrs, masked(f.Spec.Cidrs)[0]) ||
			!settled(&f) && (outdated(&f) || f.Status.Reason != ReasonStarted) {
			continue // also if the call is about another one with the same CIDR
		}
		if p.names = append(p.names, f.Name); settled(&f) {
			continue
		}
		p.verifies = false
		wanted, known := h.due[f.Name]
		if known && wanted.gen == f.Generation {
			since := wanted.since
			if h.free.After(since) {
				since = h.free
			}
			if waited := now.Sub(since); waited > startLimit {
				h.fail("NetworkFence %s waited %v, due since %v, free since %v", f.Name, waited,
					wanted.since, h.free)
			}
		}
		h.due[f.Name] = deadline{since: now, failures: wanted.failures, gen: f.Generation}
	}
	h.note("%s %v of %v starts", state, cidrs, p.names)
	return p
}

// end notes the result of a call, and when its fences are due again.
func (h *history) end(p played, err error) {
	h.mu.Lock()
	now := time.Now()
	h.note("call of %v ended: %v", p.names, err)
	if !p.verifies || now.Sub(h.verified) > maxOverdue {
		h.free = now
	}
	if err == nil && p.verifies {
		h.verified = now
		for share, at := range h.tampered {
			if at.Before(p.began) {
				delete(h.tampered, share)
			}
		}
	}
	for _, name := range p.names {
		wanted := h.due[name]
		if err == nil {
			delete(h.due, name)
			continue
		}
		wanted.failures++
		delay := firstRetry
		for range wanted.failures - 1 {
			delay = min(2*delay, maxRetry)
		}
		wanted.since = now.Add(delay)
		if wanted.failures > maxCanceling { // a verification may run
			wanted.since = wanted.since.Add(callTimeout)
		}
		h.due[name] = wanted
	}
	h.mu.Unlock()
	h.checkFenced()
}

// checkFenced checks that no client has access of which a status says that it has none.
func (h *history) checkFenced() {
	all := h.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range all {
		if f.Spec.FenceState == v1alpha1.Unfenced || !settled(&f) {
			continue
		}
		for _, share := range h.ids {
			if _, changed := h.tampered[share]; changed {
				continue
			}
			for _, address := range addresses() {
				ip := netip.MustParseAddr(address)
				level, _ := h.cloud.Access(share, ip)
				inside := slices.ContainsFunc(parse(f.Spec.Cidrs),
					func(network netip.Prefix) bool { return network.Contains(ip) })
				if inside && level != "" {
					h.fail("NetworkFence %s is Fenced, and %s has the access %q to share %s: %v", f.Name,
						address, level, share, h.cloud.Rules(share))
				}
			}
		}
	}
}

// set notes that something a fence needs is down, or up again.
func (h *history) set(what string, down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down[what] = down; !down {
		h.free = time.Now()
	}
	h.note("%s down: %v", what, down)
}

func (h *history) addShare() {
	share := sharecloud.Share{
		Backend:  pick(h, "a", "a", "b"),
		Metadata: map[string]string{"manila.csi.openstack.org/cluster": blue},
		Rules: pick(h, []string{"rw 0.0.0.0/0"}, []string{"rw 10.0.0.0/8", "ro 192.168.0.0/16"},
			[]string{"rw 10.0.0.5", "rw 10.0.0.6"}, []string{"ro 0.0.0.0/0", "rw 10.0.0.0/24"},
			[]string{"rw fd00::/124", "rw 10.0.0.0/16"}, nil),
	}
	share.ID = h.cloud.Create(share)
	h.untouched.Create(share)
	h.ids = append(h.ids, share.ID)
	h.tampered[share.ID] = time.Now()
	h.note("share %s on %s: %v", share.ID, share.Backend, share.Rules)
}

// play plays a history, heals everything, and checks what is left.
func (h *history) play() {
	for range 15 + h.random.IntN(20) {
		h.step()
		if h.wrong {
			break
		}
		h.pass(pick(h, time.Second, 3*time.Second, 10*time.Second, time.Minute, 4*time.Minute,
			15*time.Minute))
		h.checkFenced()
	}
	for _, check := range []func(){h.heal, h.settle, h.checkFenced, h.checkOthers, h.restoreAll} {
		if check(); h.wrong {
			h.Fatal(strings.Join(h.log, "\n"))
		}
	}
}

// step does one of all the things that can happen.
func (h *history) step() {
	names := []string{"n1", "n2", "n3", "n4", "n5"}
	switch h.random.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		h.putFence(pick(h, names...))
	case 6:
		h.removeFence(pick(h, names...))
	case 7:
		h.set("leader", true)
		h.leaderless = true
	case 8:
		h.failover()
	case 9:
		h.set("controller", true)
		h.restart()
		h.set("controller", false)
	case 10:
		h.toggleServer()
	case 11, 12:
		h.mu.Lock()
		h.stormy = pick(h, 0, 1, 5, 30)
		h.note("%d %% of the requests fail", h.stormy)
		h.mu.Unlock()
	case 13:
		backend := pick(h, "a", "b")
		h.note("backend %s dies", backend)
		h.cloud.Kill(backend)
	case 14:
		h.cloud.Revive("a")
		h.cloud.Revive("b")
		h.note("backends live")
	case 15:
		if len(h.ids) > 1 {
			share := pick(h, h.ids...)
			h.note("share %s is deleted", share)
			h.cloud.Delete(share)
			h.ids = slices.DeleteFunc(h.ids, func(id string) bool { return id == share })
		}
	case 16:
		h.addShare()
	case 17:
		share, state := pick(h, h.ids...), pick(h, "extending", "reverting", "migrating")
		h.note("share %s is %s", share, state)
		h.cloud.Become(share, state, pick(h, time.Minute, 10*time.Minute))
	case 18:
		h.tamper(pick(h, h.ids...))
	default:
		h.toggleClass()
	}
}

// putFence creates a NetworkFence, changes its CIDRs, or ends it.
func (h *history) putFence(name string) {
	cidrs := []string{
		"10.0.0.5/32", "10.0.0.6/32", "10.0.0.5/30", "10.0.1.7/32", "::ffff:10.0.0.6/128",
		"fd00::5/128",
	}
	h.random.Shuffle(len(cidrs), func(i, j int) { cidrs[i], cidrs[j] = cidrs[j], cidrs[i] })
	cidrs = cidrs[:1+h.random.IntN(2)]
	f := ofClass(shareClass, name, cidrs...)
	h.mu.Lock()
	h.due[name] = deadline{since: time.Now(), gen: 1}
	h.mu.Unlock()
	err := h.client.Create(h.Context(), f)
	if err == nil {
		h.note("%s fences %v", name, cidrs)
		return
	}
	found := h.get(name)
	found.Generation++
	if h.random.IntN(2) == 0 && found.Spec.FenceState == v1alpha1.Fenced {
		found.Spec.FenceState = v1alpha1.Unfenced
	} else {
		found.Spec.FenceState, found.Spec.Cidrs = v1alpha1.Fenced, cidrs
	}
	h.mu.Lock()
	h.due[name] = deadline{since: time.Now(), gen: found.Generation}
	h.note("%s: %s %v", name, found.Spec.FenceState, found.Spec.Cidrs)
	h.mu.Unlock()
	h.must(h.client.Update(h.Context(), found))
}

func (h *history) removeFence(name string) {
	h.note("%s is deleted", name)
	h.must(client.IgnoreNotFound(h.client.Delete(h.Context(), networkFence(name, ""))))
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.due, name)
}

// failover ends the pod of the driver, and starts another one, which is the leader at once.
func (h *history) failover() {
	h.set("leader", true)
	h.endPod()
	h.pass(0)
	h.mu.Lock()
	h.startPod()
	h.mu.Unlock()
	h.leaderless = false
	h.set("leader", false)
}

// toggleServer ends the answers of the API server to the controller, or begins them again.
func (h *history) toggleServer() {
	h.mu.Lock()
	down := !h.down["API server"]
	h.mu.Unlock()
	h.set("API server", down)
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.unanswered = nil
	if down {
		h.unanswered = errors.New("the API server does not answer")
	}
}

func (h *history) toggleClass() {
	err := h.client.Delete(h.Context(), class(shareClass, manilaDriver))
	if err == nil {
		h.set("class", true)
		return
	}
	h.must(h.client.Create(h.Context(), class(shareClass, manilaDriver)))
	h.set("class", false)
}

// tamper adds an access rule, as a user does.
func (h *history) tamper(share string) {
	const rule = "rw 10.0.0.4/31"
	before := len(h.cloud.Rules(share))
	if h.cloud.Allow(share, rule); len(h.cloud.Rules(share)) > before {
		h.untouched.Allow(share, rule)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tampered[share] = time.Now()
	h.note("a user adds %s to share %s", rule, share)
}

// heal ends all faults.
func (h *history) heal() {
	h.note("everything works again")
	h.mu.Lock()
	h.stormy = 0
	h.mu.Unlock()
	if h.down["class"] {
		h.toggleClass()
	}
	if h.down["API server"] {
		h.toggleServer()
	}
	h.cloud.Revive("a")
	h.cloud.Revive("b")
	h.failover()
	h.pass(time.Second)
}

// settle waits until all NetworkFences are done and verified.
func (h *history) settle() {
	began := time.Now()
	for {
		h.pass(time.Minute)
		all := h.list()
		open := slices.IndexFunc(all, func(f v1alpha1.NetworkFence) bool {
			return !settled(&f) && f.Status.Reason != ReasonFencedByAnother ||
				meta.IsStatusConditionFalse(f.Status.Conditions, ConditionVerified)
		})
		if open < 0 && time.Since(began) > 2*verifyInterval {
			return
		}
		if time.Since(began) > time.Hour {
			h.fail("NetworkFence %s is not done: %+v", all[open].Name, all[open].Status)
			return
		}
	}
}

// checkOthers checks the access of the clients that nobody has fenced.
func (h *history) checkOthers() {
	for _, share := range h.ids {
		for _, address := range addresses()[4:] {
			got, _ := h.cloud.Access(share, netip.MustParseAddr(address))
			want, _ := h.untouched.Access(share, netip.MustParseAddr(address))
			if got != want {
				h.fail("client %s has the access %q to share %s, want %q: %v", address, got, share, want,
					h.cloud.Rules(share))
			}
		}
	}
}

// restoreAll ends all fences, and checks that each share has exactly the rules of its users.
func (h *history) restoreAll() {
	h.note("all fences end")
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		h.removeFence(name)
	}
	h.create(ofClass(shareClass, "all", "10.0.0.5/32", "10.0.0.6/32", "10.0.0.4/30", "10.0.1.7/32",
		"fd00::5/128"))
	h.settle()
	h.unfence("all")
	h.settle()
	for _, share := range h.ids {
		got, want := ruleTexts(h.cloud, share), ruleTexts(h.untouched, share)
		if diff := is.DeepEqual(want, got)(); !diff.Success() {
			h.fail("share %s has the rules %v, want %v", share, got, want)
		}
		if found := h.cloud.Metadata(share); len(found) != 1 {
			h.fail("share %s has the metadata %v", share, found)
		}
	}
}

func ruleTexts(cloud *sharecloud.Cloud, share string) (texts []string) {
	for _, rule := range cloud.Rules(share) {
		texts = append(texts, fmt.Sprint(rule.Level, " ", rule.To, " ", rule.State, rule.Metadata))
	}
	slices.Sort(texts)
	return texts
}
