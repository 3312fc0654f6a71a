//go:build integration && long

package integration

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/hack/images/release"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/kubeletvolumes"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

const repository = "../.."

// TestKubernetesGuideInstallsOperators runs the commands of docs/kubernetes.md on a control plane
// that serves nothing of OpenShift, with the files of a release, and without Go and git. The
// operators become ready, the API server refuses none of their requests, they read no configuration
// of OpenShift, and they create no Warning events. In the end, the commands remove everything.
// Commands that need pods that run, or PrometheusRules, are left out; those of Manila run in
// test/e2e.
func TestKubernetesGuideInstallsOperators(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	before := k.objects()
	k.run("kubectl create namespace monitoring")
	k.run("kubectl create serviceaccount prometheus --namespace=monitoring")
	k.run(k.commands("Monitoring")[0])
	k.run(k.commands("Install a snapshot controller")[1])
	var stop []func()
	for _, section := range []struct{ driver, heading, snapshots string }{
		{"manila", "Install the Manila operator", "csi-manila-standard"},
		{"cinder", "Cinder", "standard-csi"},
	} {
		k.sub(section.driver, func(*testing.T) {
			commands := k.commands(section.heading)
			first := slices.IndexFunc(commands, func(command string) bool {
				return strings.HasPrefix(command, "kubectl wait")
			})
			if first < 0 {
				first = len(commands)
			}
			for _, command := range commands[:first] {
				k.run(command)
			}
			stop = append(stop, k.startOperator(section.driver))
			k.awaitAvailable()
			for _, command := range commands[first:] {
				k.run(command)
			}
			k.run("kubectl wait volumesnapshotclass/" + section.snapshots + " --for=create --timeout=1m")
			k.mustNotWarn()
			k.rotatesCredentials()
			k.mustNotReadOpenShift()
		})
	}
	k.run(k.commands("Monitoring")[1])
	for _, heading := range []string{
		"Create a volume", "Configure the drivers", "Take a snapshot", "Troubleshooting", "Upgrade",
	} {
		k.follow(heading)
	}
	k.addsSidecars()
	k.mustMarkObjects(before)
	backups, err := guide.Commands(filepath.Join(repository, "docs/cinder.md"), "Backups of volumes")
	k.must(err)
	k.run(backups[0])
	for _, end := range stop { // as the kubelet does when the Deployment is gone
		end()
	}
	k.leaves(before)
}

// addsSidecars runs the command of docs/csi-addons/install.md that sets the images of CSI-Addons in
// the Deployment of an operator.
func (k *plainKubernetes) addsSidecars() {
	k.t.Helper()
	page := filepath.Join(repository, "docs/csi-addons/install.md")
	commands, err := guide.Commands(page, "Add the sidecars")
	k.must(err)
	k.run(commands[0])
}

// plainKubernetes is a cluster that is not OpenShift.
type plainKubernetes struct {
	*scope

	dir     paths.Dir
	cluster *cluster
	cloud   *simulator.Simulator
	// release is the folder of the files of a release.
	release string
	// operator is the operator that was started last.
	operator fixtures.Operator
}

func startPlainKubernetes(t *testing.T) *plainKubernetes {
	t.Helper()
	k := &plainKubernetes{
		scope: &scope{t: t}, dir: paths.Dir(filepath.Join(shared.Dir, t.Name())),
	}
	plane, err := controlplane.Start(k.ctx(), controlplane.Options{
		Binaries: shared.Kubernetes, Dir: filepath.Join(k.dir.ControlPlanes(), "main"),
		Logs: k.dir.Logs(), AuditLog: k.dir.AuditLog(), Kubeconfig: k.dir.AdminKubeconfig(),
		Stages: filepath.Join(shared.Kubernetes, "manifests", "stages"),
	})
	k.must(err)
	t.Cleanup(plane.Stop)
	k.cluster = &cluster{name: "kubernetes", dir: k.dir}
	k.must(k.cluster.connect(k.ctx(), plane.Config(), plane.Etcd()))
	k.must(k.createNodes(plane.Config()))
	k.cloud = k.startCloud()
	k.must(paths.WriteFile(k.clouds(), k.cloud.CloudsYAML(simulator.Clouds{})))
	k.publish()
	return k
}

func (s *scope) startCloud() *simulator.Simulator {
	s.t.Helper()
	cloud, err := simulator.New(simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	s.must(err)
	s.must(cloud.Start(s.ctx()))
	s.t.Cleanup(func() { _ = cloud.Close() }) // its listener ends with this process anyway
	return cloud
}

// createNodes creates the workers of the devcluster, which have no label of OpenShift's masters.
func (k *plainKubernetes) createNodes(config *rest.Config) error {
	writer, err := fixtures.NewWriter(config)
	if err != nil {
		return err
	}
	nodes, err := fixtures.Render("workers", fixtures.Values{ClusterName: "kubernetes"})
	for _, node := range nodes {
		err = errors.Join(err, writer.Write(k.ctx(), node))
	}
	return err
}

func (k *plainKubernetes) clouds() string { return filepath.Join(string(k.dir), "clouds.yaml") }

// programs is a folder with commands that fail.
func (k *plainKubernetes) programs() string { return filepath.Join(string(k.dir), "programs") }

// publish writes the files of a release, and takes Go and git away.
func (k *plainKubernetes) publish() {
	k.t.Helper()
	k.release = filepath.Join(string(k.dir), "release")
	k.writeRelease("v1.0.0", k.release)
	k.must(os.MkdirAll(k.programs(), 0o755))
	for _, program := range []string{"go", "git"} {
		k.must(process.WriteProgram(filepath.Join(k.programs(), program),
			[]byte("#!/bin/sh\necho >&2 'the guide needs more than kubectl'\nexit 1\n")))
	}
}

// writeRelease writes the files of a release to apply, which follows v0.9.0 and v1.0.0.
func (k *plainKubernetes) writeRelease(version, folder string) {
	k.t.Helper()
	root := k.t.TempDir()
	assets, err := filepath.Abs(filepath.Join(repository, "assets"))
	k.must(err)
	k.must(os.Symlink(assets, filepath.Join(root, "assets")))
	k.must(os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte("## v1.0.0\n## v0.9.0\n"), 0o600))
	images := map[string]string{}
	for _, name := range []string{
		"manila-csi-driver-operator", "openstack-cinder-csi-driver-operator", "csi-addons",
	} {
		images[name] = "registry.example.com/" + name + "@sha256:" + strings.Repeat("0", 64)
	}
	files, err := release.Options{
		Root: root, Version: version, Kubectl: filepath.Join(shared.Kubernetes, "kubectl"),
		Registry: "registry.example.com",
	}.Manifests(k.ctx(), images)
	k.must(err)
	for name, text := range files {
		k.must(paths.WriteFile(filepath.Join(folder, name), text))
	}
}

func (k *plainKubernetes) commands(heading string) []string {
	k.t.Helper()
	commands, err := guide.Commands(filepath.Join(repository, "docs/kubernetes.md"), heading)
	k.must(err)
	return commands
}

// follow runs the commands in a section of the guide, except for those that need pods that run.
func (k *plainKubernetes) follow(heading string) {
	k.t.Helper()
	for _, command := range k.commands(heading) {
		if !strings.HasPrefix(command, "kubectl wait") && !strings.HasPrefix(command, "kubectl logs") {
			k.run(command)
		}
	}
}

// run runs a command of the guide on a machine without Go and git.
func (k *plainKubernetes) run(command string) {
	k.t.Helper()
	k.must(guide.Run(k.ctx(), command, k.variables()...))
}

// variables returns the environment of a command of the guide.
func (k *plainKubernetes) variables() []string {
	path := []string{k.programs(), shared.Kubernetes, shared.Bin, os.Getenv("PATH")}
	return []string{
		"PATH=" + strings.Join(path, string(os.PathListSeparator)),
		"KUBECONFIG=" + k.dir.AdminKubeconfig(), "CLOUDS=" + k.clouds(), "RELEASE=" + k.release,
	}
}

// startOperator runs the operator as its Deployment says, and returns a function that stops it.
func (k *plainKubernetes) startOperator(driver string) func() {
	k.t.Helper()
	return k.startOperatorIn(driver, "openstack-csi")
}

func (k *plainKubernetes) startOperatorIn(driver, namespace string) func() {
	k.t.Helper()
	operators, err := fixtures.KubernetesOperators([]string{driver})
	k.must(err)
	o := operators[0]
	o.Namespace, o.OperandNamespace = namespace, namespace
	deployment, err := k.cluster.kube.AppsV1().Deployments(o.Namespace).
		Get(k.ctx(), o.Name, metav1.GetOptions{})
	k.must(err)
	o.Pod = deployment.Spec.Template.Spec
	k.operator = o
	var volumes []kubeletvolumes.Volume
	for _, mount := range o.Container().VolumeMounts {
		folder := k.dir.Mounted(o.Name, mount.MountPath)
		volumes = append(volumes, kubeletvolumes.Of(o.Namespace, o.Volume(mount.Name), folder)...)
	}
	k.must(kubeletvolumes.Run(k.t.Context(), k.cluster.kube, volumes, func(err error) {
		k.t.Errorf("writing the volumes of the operator: %v", err)
	}))
	kubeconfig, err := fixtures.ServiceAccountKubeconfig(k.ctx(), k.cluster.config, o)
	k.must(err)
	k.must(paths.WriteFile(k.dir.Kubeconfig(o.Name), kubeconfig))
	runner := operator.Runner{
		Operator: o, Bin: shared.Bin, Dir: k.dir, Progress: io.Discard,
		Env: append(k.environment(o), o.Env()...),
	}
	p := k.startProgram(process.Options{
		Name: "the operator", Path: runner.Path(), Env: runner.Environment(), Log: runner.Log(),
		Args: append(runner.Args(), "--listen=127.0.0.1:0"),
	})
	k.t.Cleanup(func() {
		p.Stop(stopBound)
		if log, err := os.ReadFile(runner.Log()); err == nil && k.t.Failed() {
			k.t.Logf("end of the operator's log:\n%s", tail(string(log), 40))
		}
	})
	return func() { p.Stop(stopBound) }
}

// environment returns the variables of an operator from ConfigMaps.
func (k *plainKubernetes) environment(o fixtures.Operator) []string {
	k.t.Helper()
	var variables []string
	for _, variable := range o.Container().Env {
		if variable.ValueFrom == nil || variable.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		from := variable.ValueFrom.ConfigMapKeyRef
		config, err := k.cluster.kube.CoreV1().ConfigMaps(o.Namespace).
			Get(k.ctx(), from.Name, metav1.GetOptions{})
		k.must(err)
		variables = append(variables, variable.Name+"="+config.Data[from.Key])
	}
	return variables
}

// awaitAvailable waits until the driver is ready and its pods run.
func (k *plainKubernetes) awaitAvailable() {
	k.t.Helper()
	k.eventually(func() error { return errors.Join(k.notReady(), k.podsRun()) })
}

// eventually waits until check returns nil.
func (k *plainKubernetes) eventually(check func() error) {
	k.t.Helper()
	k.must(stopwatch.Poll(installed, func() { pause(k.t) }, check))
}

// notReady returns what prevents the driver from being ready.
func (k *plainKubernetes) notReady() error {
	driver, err := k.object()
	if err != nil {
		return err
	}
	now := diagnosis.Ready(diagnosis.Driver(driver, len(k.operator.Workloads)))
	if now.Status != opv1.ConditionTrue || now.Reason != diagnosis.ReasonAsExpected {
		return fmt.Errorf("%s is %s, reason %s: %s", now.Type, now.Status, now.Reason, now.Message)
	}
	return nil
}

// object returns the object that configures the operator. It has the fields of a ClusterCSIDriver.
func (k *plainKubernetes) object() (*opv1.ClusterCSIDriver, error) {
	found, err := k.unstructured()
	if err != nil {
		return nil, err
	}
	driver := &opv1.ClusterCSIDriver{}
	return driver, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, driver)
}

func (k *plainKubernetes) unstructured() (*unstructured.Unstructured, error) {
	resource := schema.GroupVersionResource{
		Group: "csi.openstack.org", Version: "v1alpha1", Resource: k.operator.Driver + "drivers",
	}
	found, err := k.cluster.dynamic.Resource(resource).List(k.ctx(), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	if len(found.Items) != 1 {
		return nil, fmt.Errorf("there are %d %s", len(found.Items), resource.Resource)
	}
	return &found.Items[0], nil
}

// podsRun returns an error unless the Deployment has a pod that runs.
func (k *plainKubernetes) podsRun() error {
	deployment, err := k.cluster.kube.AppsV1().Deployments(k.operator.OperandNamespace).
		Get(k.ctx(), k.operator.Workloads[0], metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("Deployment %s is not available", deployment.Name)
}

// rotatesCredentials runs those commands of the guide that concern the Secrets of the operator.
func (k *plainKubernetes) rotatesCredentials() {
	k.t.Helper()
	k.cloud.RotateCredentials(simulator.Rotation{})
	k.must(paths.WriteFile(k.clouds(), k.cloud.CloudsYAML(simulator.Clouds{})))
	name := map[string]string{"manila": loginSecret, "cinder": cinderLogin}[k.operator.Driver]
	login := func() map[string]string {
		data, err := k.cluster.secret(k.ctx(), k.operator.OperandNamespace, name)
		k.must(err)
		return data
	}
	before := login()
	secret := " " + k.operator.Credentials[0].Name + " "
	for _, command := range k.commands("Rotate the credentials") {
		if strings.Contains(command, secret) {
			k.run(command)
		}
	}
	k.eventually(func() error {
		if maps.Equal(before, login()) {
			return errors.New("the driver has the earlier login")
		}
		return nil
	})
	k.awaitAvailable()
	k.run("kubectl wait --all " + k.operator.Driver + "driver --timeout=5m --for=" +
		"condition=" + map[string]string{"manila": "Manila", "cinder": "Cinder"}[k.operator.Driver] +
		"CredentialsAccepted")
}

// mustNotReadOpenShift fails the test if the API server refused a request of the operator, or if
// the operator requested an object that only OpenShift serves. It may ask for the lists of
// resources by which it recognizes OpenShift.
func (k *plainKubernetes) mustNotReadOpenShift() {
	k.t.Helper()
	user := "system:serviceaccount:" + k.operator.Namespace + ":" + k.operator.Name
	requests, err := k.cluster.requestsSince(0, sender{user, k.operator.Program})
	k.must(err)
	assert.Check(k.t, len(requests) != 0, "the audit log contains no request of the operator")
	for _, r := range requests {
		ofOpenShift := strings.Contains(r.URI, "openshift.io") &&
			r.URI != "/apis/project.openshift.io/v1" && r.URI != "/apis/config.openshift.io/v1" &&
			!strings.Contains(r.URI, "csiaddons.openshift.io")
		if r.Code == 401 || r.Code == 403 || ofOpenShift {
			k.t.Errorf("unexpected request: %s", r)
		}
	}
}

// mustNotWarn fails the test if the operator created a Warning event.
func (k *plainKubernetes) mustNotWarn() {
	k.t.Helper()
	events, err := k.cluster.kube.CoreV1().Events(k.operator.Namespace).
		List(k.ctx(), metav1.ListOptions{})
	k.must(err)
	own := 0
	for _, e := range events.Items {
		if !strings.Contains(e.Source.Component, k.operator.Name) {
			continue
		}
		own++
		assert.Check(k.t, e.Type != corev1.EventTypeWarning,
			"%d events %s of %s: %s", e.Count, e.Reason, e.Source.Component, e.Message)
	}
	assert.Check(k.t, own != 0, "there are no events of the operator")
}

// objects returns all objects of the cluster, except those that each cluster contains.
func (k *plainKubernetes) objects() []string {
	k.t.Helper()
	found, err := guide.Objects(k.ctx(), "PATH="+shared.Kubernetes+":"+os.Getenv("PATH"),
		"KUBECONFIG="+k.dir.AdminKubeconfig())
	k.must(err)
	return found
}

// leaves removes one driver after the other by the commands of the guide, and what both use. No
// object of the first is left, and the second stays complete. In the end the cluster contains what
// it contained before, and what the user created.
func (k *plainKubernetes) leaves(before []string) {
	k.t.Helper()
	k.run("kubectl delete volumesnapshots,pvc --all --wait=false")
	all := k.objects()
	k.follow("Remove Manila")
	k.mustDiffer(all, k.objects(), "manila")
	output, err := guide.Output(k.ctx(), "kubectl openstack-csi uninstall --dry-run", k.variables()...)
	assert.Check(k.t, err == nil && strings.Contains(output, "standard-csi") &&
		!strings.Contains(output, "cinder-backup"), "%v: %s", err, output)
	k.follow("Remove")
	after := slices.DeleteFunc(k.objects(), func(object string) bool {
		return strings.Contains(object, " monitoring/") || object == "Namespace /monitoring"
	})
	assert.Check(k.t, is.DeepEqual(before, after),
		"objects before the installation and after the removal")
}

// mustDiffer checks that exactly the objects of a driver are gone. The names of those of the other
// driver do not contain its name.
func (k *plainKubernetes) mustDiffer(before, after []string, driver string) {
	k.t.Helper()
	of := func(object string) bool {
		return (strings.Contains(object, driver) || driver == "manila" &&
			strings.Contains(object, "nfsplugin")) &&
			!strings.HasPrefix(object, "CustomResourceDefinition ") // crds.yaml contains both
	}
	for _, object := range before {
		gone := !slices.Contains(after, object)
		if gone != of(object) && !strings.HasPrefix(object, "IPAddress ") { // of a Service
			k.t.Errorf("after the removal of %s, %s is gone: %v", driver, object, gone)
		}
	}
}
