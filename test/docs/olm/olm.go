// Package olm runs the Operator Lifecycle Manager (OLM) as processes beside the API server of a
// cluster that is not OpenShift, and installs operators as docs/olm.md says. Tests in
// test/integration and test/e2e call it.
package olm

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// Options configure Start.
type Options struct {
	// Kubeconfig is that of an administrator. Logs is the folder for logs.
	Kubeconfig, Logs string
	// Docs is the folder of the pages.
	Docs string
	// Catalog is the file with the catalog.
	Catalog string
	// Run runs a command of a page, or fails the test. It sets RELEASE and CLOUDS.
	Run func(command string)
}

// OLM are the processes of OLM.
type OLM struct {
	Options

	t *testing.T
	// programs is the folder that hack/olm.sh fills.
	programs string
	// address serves the catalog.
	address string
	catalog *process.Process
}

// Package is a package of the catalog.
type Package struct {
	Name, Namespace string
	// secret is the section of docs/kubernetes.md that creates the driver Secret.
	secret string
	// renamed are names in docs/olm.md, each followed by that for this package.
	renamed []string
}

// onOpenShift is the namespace in the commands of docs/olm.md.
const onOpenShift = "openshift-cluster-csi-drivers"

// Manila returns the package that docs/olm.md installs.
func Manila() Package {
	return Package{
		Name: "manila-csi-driver-operator", Namespace: "openstack-csi",
		secret:  "Install the Manila operator",
		renamed: []string{"clustercsidriver/manila", "clustercsidriver/nfs.manila"},
	}
}

// Cinder returns the package of the operator of Cinder.
func Cinder() Package {
	const name = "openstack-cinder-csi-driver-operator"
	return Package{
		Name: name, Namespace: Manila().Namespace, secret: "Cinder",
		renamed: []string{
			Manila().Name, name, "nfs.manila", "cinder", "manila", "cinder", "Manila",
			"Cinder",
		},
	}
}

// CSIAddons returns the package of the controller of CSI-Addons.
func CSIAddons() Package {
	const name, namespace = "csi-addons-openstack", "csi-addons-system"
	return Package{
		Name: name, Namespace: namespace,
		renamed: []string{Manila().Name, name, onOpenShift, namespace},
	}
}

// Start runs OLM until the test ends.
func Start(t *testing.T, options Options) *OLM {
	t.Helper()
	o := &OLM{Options: options, t: t, programs: os.Getenv("OLM_BIN_DIR")}
	assert.Assert(t, o.programs != "",
		"OLM_BIN_DIR is not set: run `make olm`, and set it to the folder bin/olm")
	o.Run("kubectl create -f " + filepath.Join(o.programs, "crds"))
	o.Run("kubectl create namespace olm")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	o.must(err)
	o.address = listener.Addr().String()
	o.must(listener.Close())
	o.Serve(o.Catalog)
	o.Run("kubectl wait crd/catalogsources.operators.coreos.com --for=condition=Established")
	// Instead of an image of the catalog.
	o.Run(regexp.MustCompile("image: .*").ReplaceAllString(
		o.commands("Add the catalog", Manila())[1],
		"address: '"+o.address+"'\n  updateStrategy: {registryPoll: {interval: 10s}}"))
	for program, args := range map[string][]string{
		"catalog": {"--writeStatusName="},
		"olm":     {"--writeStatusName=", "--writePackageServerStatusName="},
	} {
		o.start(program, append(args, "--namespace=olm"))
	}
	return o
}

func (o *OLM) must(err error) {
	o.t.Helper()
	assert.NilError(o.t, err)
}

// start runs a program of OLM until the test ends.
func (o *OLM) start(program string, args []string) *process.Process {
	o.t.Helper()
	p, err := process.Start(process.Options{
		Name: program, Path: filepath.Join(o.programs, program), Args: args,
		Env: append(os.Environ(), "KUBECONFIG="+o.Kubeconfig, "OPERATOR_NAMESPACE=olm",
			"OPERATOR_NAME=olm-operator"),
		Log: filepath.Join(o.Logs, program+".log"),
	})
	o.must(err)
	o.t.Cleanup(func() { p.Stop(time.Second) })
	return p
}

// Serve serves a catalog instead of an earlier one.
func (o *OLM) Serve(catalog string) {
	o.t.Helper()
	if o.catalog != nil {
		o.catalog.Stop(10 * time.Second)
	}
	folder := o.t.TempDir()
	text, err := os.ReadFile(catalog)
	o.must(err)
	o.must(os.WriteFile(filepath.Join(folder, "catalog.yaml"), text, 0o600))
	_, port, err := net.SplitHostPort(o.address)
	o.must(err)
	o.catalog = o.start("opm", []string{
		"serve", folder, "--port=" + port, "--cache-dir=" + o.t.TempDir(),
		"--cache-enforce-integrity=false", "--termination-log=" + filepath.Join(o.t.TempDir(), "end"),
	})
}

// commands returns the commands in a section of docs/olm.md for a package.
func (o *OLM) commands(heading string, p Package) []string {
	o.t.Helper()
	commands, err := guide.Commands(filepath.Join(o.Docs, "olm.md"), heading)
	o.must(err)
	renamed := strings.NewReplacer(append(p.renamed, onOpenShift, "openstack-csi")...)
	for n := range commands {
		commands[n] = renamed.Replace(commands[n])
	}
	return commands
}

// Install follows the page until the Subscription of a package, and creates the driver Secret.
func (o *OLM) Install(p Package) {
	o.t.Helper()
	install := o.commands("Install", p)
	differences := o.commands("Kubernetes without OpenShift", p)
	if p.secret == "" {
		addons := o.commands("CSI-Addons", p)
		o.Run(addons[1] + addons[2])
	} else {
		o.Run(differences[0])
	}
	o.Run(install[1])
	o.Run(install[2])
	if p.secret == "" {
		return
	}
	commands, err := guide.Commands(filepath.Join(o.Docs, "kubernetes.md"), p.secret)
	o.must(err)
	for line := range strings.Lines(strings.Join(commands, "")) {
		if strings.HasPrefix(line, "kubectl create secret") {
			o.Run(line)
		}
	}
}

// Await waits until a version of a package runs, and creates the object that configures it.
func (o *OLM) Await(p Package, version string) {
	o.t.Helper()
	o.Run(strings.ReplaceAll(o.commands("Install", p)[3], "v1.0.0", version))
	if p.secret != "" {
		o.Run(o.commands("Kubernetes without OpenShift", p)[1])
	}
}

// AwaitReady waits until the driver of a package is ready.
func (o *OLM) AwaitReady(p Package) {
	o.t.Helper()
	o.Run(o.commands("Kubernetes without OpenShift", p)[2])
}

// Follow runs the commands in a section of the page, except for those on OpenShift.
func (o *OLM) Follow(heading string) {
	o.t.Helper()
	addons := o.commands("CSI-Addons", CSIAddons())[1]
	for _, command := range o.commands(heading, Manila()) {
		if !strings.Contains(command, "$PREREQUISITES") {
			o.Run(addons + command)
		}
	}
}
