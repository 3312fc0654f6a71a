//go:build integration && long && olm

package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// packages are the packages of the catalog, with their namespaces.
func packages() map[string]string {
	return map[string]string{
		"manila-csi-driver-operator":           "openshift-cluster-csi-drivers",
		"openstack-cinder-csi-driver-operator": "openshift-cluster-csi-drivers",
		"csi-addons-openstack":                 "csi-addons-system",
	}
}

// credentialsRequests is a CustomResourceDefinition of OpenShift.
const credentialsRequests = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: credentialsrequests.cloudcredential.openshift.io}
spec:
  group: cloudcredential.openshift.io
  scope: Namespaced
  names: {kind: CredentialsRequest, plural: credentialsrequests}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestRealOLMInstallsUpgradesAndRemoves runs the real OLM, as processes beside the API server,
// with the catalog of a release and then with that of the next one.
func TestRealOLMInstallsUpgradesAndRemoves(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	o := &olm{plainKubernetes: k, programs: os.Getenv("OLM_BIN_DIR")}
	if o.programs == "" {
		t.Fatal("OLM_BIN_DIR is not set: run `make test-olm`")
	}
	o.start()
	// The bundles are for OpenShift.
	k.run("kubectl label nodes --all node-role.kubernetes.io/master=")
	k.run("kubectl create namespace openshift-cloud-credential-operator")
	k.run("kubectl create namespace openshift-config")
	k.run("kubectl apply -f - <<EOF\n" + credentialsRequests + "EOF\n" +
		"kubectl wait crd/credentialsrequests.cloudcredential.openshift.io --for=condition=Established")
	k.run(`kubectl apply -f "$RELEASE/crds.yaml"`) // of OpenShift
	before := slices.DeleteFunc(k.objects(), func(object string) bool {
		return strings.HasPrefix(object, "CatalogSource ")
	})
	for _, file := range []string{
		"csi-addons-crds", "olm-prerequisites-common", "olm-prerequisites-manila",
		"olm-prerequisites-cinder", "olm-prerequisites-csi-addons",
	} {
		k.run(fmt.Sprintf(`kubectl apply --server-side -f "$RELEASE/%s.yaml"`, file))
	}
	for _, namespace := range []string{"openshift-cluster-csi-drivers", "csi-addons-system"} {
		o.apply("operators.coreos.com/v1", "OperatorGroup", namespace, "operators",
			"{targetNamespaces: ["+namespace+"]}")
	}
	for name, namespace := range packages() {
		o.apply("operators.coreos.com/v1alpha1", "Subscription", namespace, name,
			"{name: "+name+", channel: alpha, source: openstack-csi, sourceNamespace: olm}")
	}
	o.awaitVersion("v1.0.0")

	next := filepath.Join(string(k.dir), "next")
	k.writeRelease("v1.1.0", next)
	o.serve(filepath.Join(next, "catalog.yaml"))
	o.awaitVersion("v1.1.0")
	for name, namespace := range packages() {
		k.run(fmt.Sprintf("kubectl wait csv/%s.v1.0.0 -n %s --for=delete --timeout=1m", name, namespace))
	}

	o.leaves(before)
}

// leaves follows the page until nothing is left.
func (o *olm) leaves(before []string) {
	o.t.Helper()
	page := filepath.Join(repository, "docs/olm.md")
	for _, heading := range []string{
		"Remove Manila", "Remove Cinder", "Remove CSI-Addons", "Remove the catalog",
	} {
		commands, err := guide.Commands(page, heading)
		o.must(err)
		for _, command := range commands {
			o.run(strings.ReplaceAll(command, "oc ", "kubectl "))
		}
	}
	o.eventually(func() error {
		if diff := cmp.Diff(before, o.objects()); diff != "" {
			return fmt.Errorf("objects before the installation and after the removal:\n%s", diff)
		}
		return nil
	})
}

// olm are the processes of OLM.
type olm struct {
	*plainKubernetes

	programs string
	// address serves the catalog.
	address string
	catalog *process.Process
}

// start starts OLM.
func (o *olm) start() {
	o.t.Helper()
	o.run("kubectl create -f " + filepath.Join(o.programs, "crds"))
	o.run("kubectl create namespace olm")
	listener, err := (&net.ListenConfig{}).Listen(o.ctx(), "tcp", "127.0.0.1:0")
	o.must(err)
	o.address = listener.Addr().String()
	o.must(listener.Close())
	o.serve(filepath.Join(o.release, "catalog.yaml"))
	o.run("kubectl wait crd/catalogsources.operators.coreos.com --for=condition=Established")
	o.apply("operators.coreos.com/v1alpha1", "CatalogSource", "olm", "openstack-csi",
		"{sourceType: grpc, address: '"+o.address+"', updateStrategy: {registryPoll: {interval: 10s}}}")
	for program, args := range map[string][]string{
		"catalog": {"--writeStatusName="},
		"olm":     {"--writeStatusName=", "--writePackageServerStatusName="},
	} {
		o.runProgram(program, append(args, "--namespace=olm"))
	}
}

// runProgram runs a program of OLM until the test ends.
func (o *olm) runProgram(program string, args []string) *process.Process {
	o.t.Helper()
	p, err := process.Start(process.Options{
		Name: program, Path: filepath.Join(o.programs, program), Args: args,
		Env: append(os.Environ(), "KUBECONFIG="+o.dir.AdminKubeconfig(), "OPERATOR_NAMESPACE=olm",
			"OPERATOR_NAME=olm-operator"),
		Log: filepath.Join(o.dir.Logs(), program+".log"),
	})
	o.must(err)
	o.t.Cleanup(func() { p.Stop(time.Second) })
	return p
}

// serve serves a catalog instead of an earlier one.
func (o *olm) serve(catalog string) {
	o.t.Helper()
	if o.catalog != nil {
		o.catalog.Stop(10 * time.Second)
	}
	folder := filepath.Join(string(o.dir), "catalog-"+filepath.Base(filepath.Dir(catalog)))
	text, err := os.ReadFile(catalog)
	o.must(err)
	o.must(paths.WriteFile(filepath.Join(folder, "catalog.yaml"), text))
	_, port, err := net.SplitHostPort(o.address)
	o.must(err)
	o.catalog = o.runProgram("opm", []string{
		"serve", folder, "--port=" + port, "--cache-dir=" + o.t.TempDir(),
		"--cache-enforce-integrity=false", "--termination-log=" + filepath.Join(folder, "end.log"),
	})
}

// apply creates an object with a spec.
func (o *olm) apply(version, kind, namespace, name, spec string) {
	o.t.Helper()
	o.run(fmt.Sprintf("kubectl apply -f - <<EOF\napiVersion: %s\nkind: %s\n"+
		"metadata: {name: %s, namespace: %s}\nspec: %s\nEOF", version, kind, name, namespace, spec))
}

// awaitVersion waits until each package has a version that runs.
func (o *olm) awaitVersion(version string) {
	o.t.Helper()
	for name, namespace := range packages() {
		o.run(fmt.Sprintf("kubectl wait csv/%s.%s -n %s --for=create --timeout=3m\n"+
			"kubectl wait csv/%s.%s -n %s --for=jsonpath='{.status.phase}'=Succeeded --timeout=3m", name,
			version, namespace, name, version, namespace))
	}
}
