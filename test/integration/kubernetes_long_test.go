//go:build integration && long

package integration

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/kubeletvolumes"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const repository = "../.."

// TestKubernetesGuideInstallsOperators runs the commands of docs/kubernetes.md on a control plane
// that serves nothing of OpenShift. The operators become available, the API server refuses none of
// their requests, they read no configuration of OpenShift, and they create no Warning events.
func TestKubernetesGuideInstallsOperators(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	k.run("kubectl create serviceaccount reader")
	k.run("kubectl create clusterrole metrics-reader --verb=get --non-resource-url=/metrics")
	k.run("kubectl create clusterrolebinding metrics-reader --clusterrole=metrics-reader " +
		"--serviceaccount=default:reader")
	for _, section := range []struct{ driver, heading string }{
		{"manila", "## Install the Manila operator"}, {"cinder", "## Cinder"},
	} {
		k.sub(section.driver, func(t *testing.T) {
			commands := guideCommands(t, section.heading)
			first := slices.IndexFunc(commands, func(command string) bool {
				return strings.HasPrefix(command, "kubectl wait")
			})
			if first < 0 {
				first = len(commands)
			}
			for _, command := range commands[:first] {
				k.run(command)
			}
			k.startOperator(section.driver)
			k.awaitAvailable()
			for _, command := range commands[first:] {
				k.run(command)
			}
			k.mustServeMetrics()
			k.mustNotReadOpenShift()
			k.mustNotWarn()
		})
	}
}

// guideCommands returns the commands in a section of the guide.
func guideCommands(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for line := range strings.Lines(section) {
		if command, indented := strings.CutPrefix(line, "    "); indented {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if !found || len(commands) == 0 {
		t.Fatalf("docs/kubernetes.md has no commands below %q", heading)
	}
	return commands
}

// plainKubernetes is a cluster that is not OpenShift.
type plainKubernetes struct {
	*scope

	dir     paths.Dir
	cluster *cluster
	// operator is the operator that was started last, log the path of its log.
	operator fixtures.Operator
	log      string
}

func startPlainKubernetes(t *testing.T) *plainKubernetes {
	t.Helper()
	k := &plainKubernetes{
		scope: &scope{t: t}, dir: paths.Dir(filepath.Join(shared.dir, "kubernetes")),
	}
	plane, err := controlplane.Start(k.ctx(), controlplane.Options{
		Binaries: shared.kubernetes, Dir: filepath.Join(k.dir.ControlPlanes(), "main"),
		Logs: k.dir.Logs(), AuditLog: k.dir.AuditLog(), Kubeconfig: k.dir.AdminKubeconfig(),
		Stages: filepath.Join(shared.kubernetes, "manifests", "stages"),
	})
	k.must(err)
	t.Cleanup(plane.Stop)
	k.cluster = &cluster{name: "kubernetes", dir: k.dir, config: plane.Config()}
	k.must(k.cluster.dial())
	k.must(k.createNodes(plane.Config()))
	cloud, err := simulator.New(simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	k.must(err)
	k.must(cloud.Start(t.Context()))
	t.Cleanup(func() { _ = cloud.Close() }) // its listener ends with this process anyway
	k.must(paths.WriteFile(k.clouds(), cloud.CloudsYAML(simulator.Clouds{})))
	return k
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

// run runs a command of the guide in the root of the repository.
func (k *plainKubernetes) run(command string) {
	k.t.Helper()
	cmd := exec.CommandContext(k.ctx(), "bash", "-euc", command)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(),
		"PATH="+shared.kubernetes+string(os.PathListSeparator)+os.Getenv("PATH"),
		"KUBECONFIG="+k.dir.AdminKubeconfig(), "CLOUDS="+k.clouds())
	if output, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v\n%s", command, err, output)
	}
}

// startOperator runs the operator as its Deployment in the cluster says.
func (k *plainKubernetes) startOperator(driver string) {
	k.t.Helper()
	operators, err := fixtures.Operators([]string{driver})
	k.must(err)
	o := operators[0]
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
		Operator: o, Bin: shared.bin, Dir: k.dir, Progress: io.Discard,
		Env: append(o.Env(), "OS_CLIENT_CONFIG_FILE="+k.dir.OpenStackClouds(o.Name)),
	}
	k.log = runner.Log()
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
}

// awaitAvailable waits until all workloads are rolled out and no condition reports a failure.
func (k *plainKubernetes) awaitAvailable() {
	k.t.Helper()
	k.eventually(func() error { return errors.Join(k.unavailable(), k.podsRun()) })
}

// eventually waits until check returns nil.
func (k *plainKubernetes) eventually(check func() error) {
	k.t.Helper()
	for watch := startWatch(); ; pause(k.t) {
		err := check()
		if err == nil {
			return
		}
		if watch.elapsed() > installed {
			k.t.Fatalf("not within %v: %v", installed, err)
		}
	}
}

// unavailable returns what is missing in the conditions.
func (k *plainKubernetes) unavailable() error {
	driver, err := k.cluster.openst.OperatorV1().ClusterCSIDrivers().
		Get(k.ctx(), k.operator.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return err
	}
	available := 0
	for _, c := range driver.Status.Conditions {
		isTrue := c.Status == opv1.ConditionTrue
		switch {
		case strings.HasSuffix(c.Type, opv1.OperatorStatusTypeAvailable) && isTrue:
			available++
		case strings.HasSuffix(c.Type, opv1.OperatorStatusTypeDegraded) && isTrue,
			strings.HasSuffix(c.Type, "Disabled"):
			return fmt.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
	if want := len(k.operator.Workloads); available < want {
		return fmt.Errorf("%d of %d workloads are available", available, want)
	}
	return nil
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

// mustServeMetrics fails the test if the operator does not serve its metrics, with a certificate
// that it made itself, to a user whom RBAC permits to read them.
func (k *plainKubernetes) mustServeMetrics() {
	k.t.Helper()
	log, err := os.ReadFile(k.log)
	k.must(err)
	_, rest, _ := strings.Cut(string(log), `"Serving health and metrics" address="`)
	address, _, _ := strings.Cut(rest, `"`)
	token, err := k.cluster.kube.CoreV1().ServiceAccounts("default").
		CreateToken(k.ctx(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	k.must(err)
	client := newOperatorClient()
	defer client.CloseIdleConnections()
	k.eventually(func() error {
		request, err := http.NewRequestWithContext(k.ctx(), http.MethodGet,
			"https://"+address+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("the operator answers a permitted reader with %s", response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
}

// mustNotReadOpenShift fails the test if the API server refused a request of the operator, or if
// the operator requested an object that only OpenShift serves.
func (k *plainKubernetes) mustNotReadOpenShift() {
	k.t.Helper()
	user := "system:serviceaccount:" + k.operator.Namespace + ":" + k.operator.Name
	requests, err := k.cluster.requestsSince(0, sender{user, k.operator.Program})
	k.must(err)
	if len(requests) == 0 {
		k.t.Error("the audit log contains no request of the operator")
	}
	for _, r := range requests {
		if r.Code == 401 || r.Code == 403 || strings.Contains(r.URI, "config.openshift.io") {
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
		if !strings.HasPrefix(e.Source.Component, k.operator.Name) {
			continue
		}
		own++
		if e.Type == corev1.EventTypeWarning {
			k.t.Errorf("%d events %s of %s: %s", e.Count, e.Reason, e.Source.Component, e.Message)
		}
	}
	if own == 0 {
		k.t.Error("there are no events of the operator")
	}
}
