// Package command is the command line of devcluster. Only its main uses it.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/node"
)

// Main runs the command and returns its exit code. SIGINT, SIGTERM and SIGHUP stop it gracefully.
func Main(args []string, stdout, stderr io.Writer) int {
	log.SetLogger(logr.Discard()) // envtest's messages repeat our errors
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM,
		syscall.SIGHUP)
	defer stop()
	root := newRoot(nil, args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "devcluster: %v\n", err)
		return 1
	}
	return 0
}

// newRoot returns the command for a command line. In the process of a running devcluster it only
// contains commands that change it.
func newRoot(r *running, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "devcluster",
		Short:         "Run the operators on a real Kubernetes control plane on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	f := &flags{running: r, args: args}
	root.PersistentFlags().StringVar(&f.dir, "dir", "",
		"folder for all state (default .devcluster in the source tree)")
	root.PersistentFlags().StringVar(&f.binaries, "binaries", "",
		"folder that make k8s filled "+
			"(default K8S_BIN_DIR, and bin/k8s in the source tree without it)")
	root.PersistentFlags().StringVar(&f.bin, "bin", "",
		"folder of the operators' programs (default bin in the source tree)")
	cloud := newCloud(f)
	root.AddCommand(cloud, newAPI(f), newGuest(f))
	if r == nil {
		cloud.AddCommand(newServe(f))
		root.AddCommand(newRun(f))
	}
	return root
}

// flags are the values of the command line.
type flags struct {
	running *running // nil in the process of the user
	args    []string

	dir, binaries, bin string
	tls                bool
	drivers            []string
	flavour            string
	guests             int
	nodes              string
	csiAddons          bool
	// check says that only the flags and this machine are checked.
	check                      bool
	noOperators, exitWhenReady bool
	timeout                    time.Duration
}

// Flavours of a cluster.
const (
	standalone = "standalone"
	hypershift = "hypershift"
	plain      = "kubernetes"
)

// addCluster adds the flags that describe a cluster.
func (f *flags) addCluster(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.tls, "tls", false, "let OpenStack serve HTTPS with a private CA")
	cmd.Flags().StringVar(&f.flavour, "flavour", standalone,
		standalone+": the operators run in the cluster that they serve; "+
			hypershift+": they run in a management cluster; "+plain+": the cluster is not OpenShift, "+
			"which "+standalone+" also means with real nodes")
	cmd.Flags().IntVar(&f.guests, "guests", 1,
		"how many guest clusters flavour "+hypershift+" has, each with operators of its own")
	cmd.Flags().StringVar(&f.nodes, "nodes", simulatedNodes,
		simulatedNodes+": kwok simulates nodes, and operators are processes of this machine; "+
			realNodes+" or "+realNodes+":N: one or N real nodes, with operators and drivers as pods")
	cmd.Flags().BoolVar(&f.csiAddons, "csi-addons", false,
		"install CSI-Addons, which the operators then add to their drivers; needs real nodes")
	cmd.Flags().StringSliceVar(&f.drivers, "drivers", []string{"manila"},
		"drivers whose operators run, such as manila,cinder")
}

type places struct {
	dir      paths.Dir
	binaries string
	bin      string
	// source is the source tree, nodePrograms the folder that hack/node.sh filled.
	source, nodePrograms string
}

// places returns the folders. This program is in the folder bin of the source tree.
func (f *flags) places() (places, error) {
	program, err := os.Executable()
	if err != nil {
		return places{}, fmt.Errorf("finding this program: %w", err)
	}
	var p places
	bin := filepath.Dir(program)
	for path, value := range map[*string]string{
		(*string)(&p.dir): cmp.Or(f.dir, filepath.Join(bin, "..", ".devcluster")),
		&p.binaries:       cmp.Or(f.binaries, os.Getenv("K8S_BIN_DIR"), filepath.Join(bin, "k8s")),
		&p.bin:            cmp.Or(f.bin, bin),
		&p.source:         filepath.Dir(bin),
		&p.nodePrograms:   cmp.Or(os.Getenv("NODE_BIN_DIR"), filepath.Join(bin, "node")),
	} {
		if *path, err = filepath.Abs(value); err != nil {
			return places{}, fmt.Errorf("resolving folder %q: %w", value, err)
		}
	}
	return p, nil
}

func (f *flags) clusterOptions(p places) (cluster.Options, error) {
	find := fixtures.Operators
	if f.flavour == plain || f.nodes != simulatedNodes {
		find = fixtures.KubernetesOperators
	}
	operators, err := find(f.drivers)
	if err != nil {
		return cluster.Options{}, err
	}
	if len(operators) == 0 {
		return cluster.Options{}, errors.New("no driver is given")
	}
	o := cluster.Options{
		Dir: p.dir, Binaries: p.binaries, TLS: f.tls, Operators: operators, CSIAddons: f.csiAddons,
		Sidecars: true,
	}
	if o.Nodes, err = f.nodeOptions(p); err != nil {
		return cluster.Options{}, err
	}
	switch {
	case f.flavour == hypershift && f.guests > 0:
		o.Guests = f.guests
	case f.flavour == hypershift:
		return o, fmt.Errorf("flavour %s needs a guest", hypershift)
	case f.flavour != standalone && f.flavour != plain:
		return o, fmt.Errorf("flavour %q is not known, only %s, %s and %s", f.flavour, standalone,
			hypershift, plain)
	case f.guests != 1:
		return o, fmt.Errorf("flavour %s has no guests", f.flavour)
	}
	return o, nil
}

// Values of --nodes.
const (
	simulatedNodes = "simulated"
	realNodes      = "real"
	// maxNodes is the number of real nodes that the addresses of a cluster allow.
	maxNodes = 9
)

// nodeOptions returns the real nodes that --nodes describes. It fails if something is missing to
// run them.
func (f *flags) nodeOptions(p places) (cluster.Nodes, error) {
	if f.nodes == simulatedNodes && f.csiAddons {
		return cluster.Nodes{}, fmt.Errorf("--csi-addons needs --nodes=%s: pods of simulated nodes run "+
			"no programs", realNodes)
	}
	if f.nodes == simulatedNodes {
		return cluster.Nodes{}, nil
	}
	kind, number, several := strings.Cut(f.nodes, ":")
	count, err := 1, error(nil)
	if several {
		count, err = strconv.Atoi(number)
	}
	if kind != realNodes || err != nil || count < 1 || count > maxNodes {
		return cluster.Nodes{}, fmt.Errorf("--nodes is %q: set it to %s, %s or %s:N, N from 1 to %d",
			f.nodes, simulatedNodes, realNodes, realNodes, maxNodes)
	}
	if f.flavour == hypershift {
		return cluster.Nodes{}, fmt.Errorf("--nodes=%s needs flavour %s", f.nodes, plain)
	}
	if f.check {
		return cluster.Nodes{Count: count}, node.CheckMachine()
	}
	return cluster.RealNodes(count, cluster.Folders{
		Source: p.source, Programs: p.bin, Nodes: p.nodePrograms,
	})
}
