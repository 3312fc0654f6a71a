//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
	"github.com/openstack-csi/csi-operator/test/openstack/port"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

const (
	// stopGrace is the termination grace period of a pod.
	stopGrace = 30 * time.Second
	pollEvery = 100 * time.Millisecond
	// soon bounds what an API server does in seconds.
	soon = time.Minute
	// longestLine is the length of a line of a log that a failed test shows.
	longestLine = 300
	// shortElection lets another replica lead soon after the leader has ended. longElection lets a
	// leader survive an outage.
	shortElection = "  leaseDuration: 15s\n  renewDeadline: 10s\n  retryPeriod: 1s\n"
	longElection  = "  leaseDuration: 137s\n  renewDeadline: 107s\n  retryPeriod: 5s\n"
)

// side is one of the API servers.
type side struct {
	name    string
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// world is a devcluster whose operators reach the API servers through proxies.
type world struct {
	*testing.T
	options

	bin, kubernetes string // the folders of programs
	dir             paths.Dir
	cluster         *devcluster.Cluster
	env             *devcluster.Environment
	cloud           testcloud.Cloud
	source          *view.Source
	// guest contains the nodes, control the operators. Standalone they are the same.
	guest, control *side

	trouble  trouble
	journal  journal
	programs []*program
	addons   *addons
	results  map[string][]result // by fault
	samples  map[role][]usage
	scraper  string // a token that may read metrics
	// deleted accepts the keys of objects that the fault deleted, and edits counts its changes.
	deleted func(key string) bool
	edits   int
	// foreign contains the objects that no operator created, before all before the fault: none before
	// everything is installed.
	foreign, before state
}

// newWorld starts a devcluster. Nothing runs in it yet.
func newWorld(t *testing.T, guests int) *world {
	t.Helper()
	w := &world{
		T: t, options: newOptions(t), bin: os.Getenv("BIN_DIR"), kubernetes: os.Getenv("K8S_BIN_DIR"),
		results: map[string][]result{}, samples: map[role][]usage{},
	}
	w.dir = paths.Dir(filepath.Join(w.logs, "cluster"))
	process.KillOnSignal(w.logs, w.kubernetes, w.bin)
	w.trouble.random = w.newRandom("proxies")
	w.trouble.cut = make(chan struct{})
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	w.must(err)
	w.cluster, err = devcluster.Start(t.Context(), devcluster.Options{
		Dir: w.dir, Binaries: w.kubernetes, Operators: operators, Guests: guests, Progress: io.Discard,
	})
	w.must(err)
	t.Cleanup(w.cluster.Stop)
	w.env, w.cloud = w.cluster.Environments()[0], w.cluster.Cloud()
	w.source, err = view.NewSource(w.env)
	w.must(err)
	w.control = w.newSide(flavour.ControlPlane, w.env.ControlConfig())
	w.guest = w.control
	if guests > 0 {
		w.guest = w.newSide(flavour.Guest, w.env.Config())
	}
	w.installAddons()
	w.scraper = w.newScraper()
	w.foreign = w.snapshot()
	return w
}

func (w *world) newSide(name flavour.Side, config *rest.Config) *side {
	w.Helper()
	config.QPS, config.UserAgent = -1, "chaos"
	s := &side{name: string(name), config: config}
	var err error
	s.kube, err = kubernetes.NewForConfig(config)
	w.must(err)
	s.dynamic, err = dynamic.NewForConfig(config)
	w.must(err)
	return s
}

// sides returns each of the API servers once.
func (w *world) sides() []*side {
	if w.guest == w.control {
		return []*side{w.guest}
	}
	return []*side{w.control, w.guest}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pause waits while the programs run.
func (w *world) pause(d time.Duration) {
	w.Helper()
	select {
	case <-time.After(d):
	case <-w.Context().Done():
		w.Fatal(w.Context().Err())
	}
}

// eventually waits until check returns nil, and returns how long that took.
func (w *world) eventually(bound time.Duration, check func() error) (took time.Duration) {
	w.Helper()
	for watch := stopwatch.Start(); ; w.pause(pollEvery) {
		err := check()
		if err == nil {
			return watch.Took()
		}
		if watch.Took() > bound {
			w.dump()
			w.Fatalf("not within %v: %v", bound, err)
		}
	}
}

// dump logs the end of the log of each replica.
func (w *world) dump() {
	w.Helper()
	for _, r := range w.replicas() {
		w.Logf("--- the end of %s", r.options.Log)
		for line := range strings.Lines(process.Tail(r.options.Log)) {
			w.Log(line[:min(len(line), longestLine)])
		}
	}
}

func (w *world) replicas() []*replica {
	var all []*replica
	for _, p := range w.programs {
		all = append(all, p.replicas...)
	}
	return all
}

// startOperators starts two replicas of each operator.
func (w *world) startOperators() {
	w.Helper()
	for _, o := range w.env.Operators {
		p := &program{name: o.Program, side: w.control, namespace: o.Namespace, account: o.Name}
		for _, suffix := range []string{"a", "b"} {
			r := &replica{program: p, name: o.Program + "-" + suffix, address: w.reserveAddress()}
			runner := operator.Runner{
				Operator: o, Guest: w.env.Guest, Bin: w.bin, Env: o.Env(),
				Dir: paths.Dir(filepath.Join(string(w.dir), "replicas", r.name)),
			}
			w.writeFiles(r, runner)
			r.options = process.Options{
				Name: r.name, Path: runner.Path(), Args: append(runner.Args(), "--poll-interval=2s"),
				Env: append(runner.Environment(), "CSI_ADDONS_SIDECAR_IMAGE=csi-addons:sidecar",
					"CSI_ADDONS_DRIVER_IMAGE=csi-addons:adapter"),
				Log: runner.Log(),
			}
			p.replicas = append(p.replicas, r)
		}
		w.programs = append(w.programs, p)
	}
	w.renewTokens(w.programs...)
	for _, r := range w.replicas() {
		w.start(r)
	}
}

// start runs a replica until the test ends.
func (w *world) start(r *replica) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.run(ctx); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(running.Wait)
	w.Cleanup(cancel)
}

// writeFiles creates the files of a replica: it mounts what the devcluster writes, and has a
// kubeconfig of the proxies and a configuration of its own.
func (w *world) writeFiles(r *replica, runner operator.Runner) {
	w.Helper()
	name := runner.Operator.Name
	for _, mount := range runner.Operator.Container().VolumeMounts {
		from, to := w.env.Dir.Mounted(name, mount.MountPath), runner.Dir.Mounted(name, mount.MountPath)
		switch {
		case strings.HasPrefix(runner.Dir.OperatorConfig(name), to):
			r.config = runner.Dir.OperatorConfig(name)
			w.must(r.configure(shortElection))
		case strings.HasPrefix(runner.Dir.GuestKubeconfig(name), to):
			admin, err := clientcmd.BuildConfigFromFlags("", w.env.Dir.GuestKubeconfig(name))
			w.must(err)
			w.connect(r, w.guest, admin.TLSClientConfig, &clientcmdapi.AuthInfo{},
				runner.Dir.GuestKubeconfig(name))
		default:
			w.must(os.MkdirAll(filepath.Dir(to), 0o755))
			w.must(os.Symlink(from, to))
		}
	}
	w.connectAccount(r, runner.Dir.Kubeconfig(name))
}

// connectAccount connects a replica to the side with its ServiceAccount.
func (w *world) connectAccount(r *replica, path string) {
	w.Helper()
	s := r.program.side
	w.connect(r, s, rest.TLSClientConfig{CAData: s.config.CAData},
		&clientcmdapi.AuthInfo{TokenFile: w.tokenFile(r.program)}, path)
}

// reserveAddress returns an address of this machine that no other program gets.
func (w *world) reserveAddress() string {
	w.Helper()
	reserved, err := port.Reserve("127.0.0.1:0")
	w.must(err)
	w.Cleanup(func() { w.must(reserved.Release()) })
	return fmt.Sprintf("127.0.0.1:%d", reserved.Port())
}

func (w *world) tokenFile(p *program) string {
	return filepath.Join(string(w.dir), p.name+".token")
}

// tokenSecret is the name of the Secret to which a token of a program is bound: the API server
// refuses the token when the Secret is gone.
func (p *program) tokenSecret() string {
	return fmt.Sprintf("%s%s-%d", ownPrefix, p.name, p.tokens)
}

// renewTokens writes new tokens of programs, as kubelets do.
func (w *world) renewTokens(programs ...*program) {
	w.Helper()
	for _, p := range programs {
		p.tokens++
		secret, err := p.side.kube.CoreV1().Secrets(p.namespace).Create(w.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: p.tokenSecret()},
		}, metav1.CreateOptions{})
		w.must(err)
		token, err := p.side.token(w.Context(), p.namespace, p.account,
			&authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID,
			})
		w.must(err)
		w.must(paths.WriteFile(w.tokenFile(p), []byte(token)))
	}
}

// newScraper returns a token that may read the metrics of the operators.
func (w *world) newScraper() string {
	w.Helper()
	const namespace, name = "openshift-monitoring", "prometheus-k8s"
	_, err := w.guest.kube.CoreV1().ServiceAccounts(namespace).Create(w.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	token, err := w.guest.token(w.Context(), namespace, name, nil)
	w.must(err)
	return token
}

// token returns a token of a ServiceAccount for a day.
func (s *side) token(
	ctx context.Context, namespace, name string, bound *authenticationv1.BoundObjectReference,
) (string, error) {
	seconds := int64((24 * time.Hour).Seconds())
	review, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds, BoundObjectRef: bound,
		}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.Token, nil
}
