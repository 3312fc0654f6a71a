package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/crypto"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	secretText                 = "planted-password"
	manilaSecret, cinderSecret = "manila-cloud-credentials", "openstack-cloud-credentials"
	manilaNamespace            = "openshift-manila-csi-driver"
)

// rotatingCluster is a cluster whose operator rolls out two Deployments, early and late.
type rotatingCluster struct {
	*testing.T
	client.WithWatch

	// rolls are the Deployments that roll out, copies says whether the root Secret is copied.
	rolls  map[string]bool
	copies bool
	// rewrites says whether the cloud credential operator changes the root Secret.
	rewrites bool
	// interrupt is called when the command waits for the Deployment late, which does not roll out.
	interrupt func()
	waits     int
}

// clouds returns a clouds.yaml that differs in a comment.
func clouds(name string) []byte {
	return fmt.Appendf(nil, "clouds:\n  openstack:\n    auth:\n      auth_url: https://k:5000/v3\n"+
		"      username: u\n      password: %s\n      project_name: p\n      user_domain_name: d\n"+
		"      project_domain_name: d\n# %s\n", secretText, name)
}

func secret(namespace, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data,
	}
}

// copied returns a Secret of the cloud credential operator.
func copied(clouds []byte) *corev1.Secret {
	s := secret(flavour.DefaultNamespace, cinderSecret, map[string][]byte{cloudsKey: clouds})
	s.Annotations = map[string]string{requestAnnotation: "a"}
	return s
}

func newRotatingCluster(t *testing.T, objects ...client.Object) *rotatingCluster {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	c := &rotatingCluster{T: t, rolls: map[string]bool{}, copies: true}
	for _, name := range []string{"early", "late"} {
		objects = append(objects, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: flavour.DefaultNamespace, Name: name,
				Annotations: map[string]string{diagnosis.InputsAnnotation: "secret/" + cinderSecret + "=a"},
			},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0)},
		})
	}
	c.WithWatch = onGet(fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).Build(),
		c.get)
	return c
}

// get plays the cloud credential operator and the operator of the driver before it reads an object.
func (c *rotatingCluster) get(
	ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object,
) error {
	var root, copied corev1.Secret
	at := client.ObjectKey{Namespace: flavour.DefaultNamespace, Name: cinderSecret}
	err := inner.Get(ctx, client.ObjectKey{Namespace: rootNamespace, Name: rootSecret}, &root)
	if text := root.Data[cloudsKey]; err == nil && c.rewrites && !bytes.HasPrefix(text, []byte("#")) {
		root.Data[cloudsKey] = append([]byte("#\n"), text...)
		if err := inner.Update(ctx, &root); err != nil {
			return err
		}
	}
	if err == nil && c.copies && inner.Get(ctx, at, &copied) == nil {
		copied.Data = root.Data
		if err := inner.Update(ctx, &copied); err != nil {
			return err
		}
	}
	if key.Name == "late" && !c.rolls["late"] {
		if c.waits++; c.waits%3 == 0 {
			c.interrupt()
		}
	}
	var d appsv1.Deployment
	if c.rolls[key.Name] && inner.Get(ctx, key, &d) == nil && inner.Get(ctx, at, &copied) == nil {
		_, name, _ := strings.Cut(string(copied.Data[cloudsKey]), "# ")
		d.Annotations[diagnosis.InputsAnnotation] = "secret/" + cinderSecret + "=" +
			strings.TrimSpace(name)
		if err := inner.Update(ctx, &d); err != nil {
			return err
		}
	}
	return inner.Get(ctx, key, object)
}

// rotate runs the command, and checks that its output contains no secret.
func (c *rotatingCluster) rotate(args ...string) (int, string) {
	c.Helper()
	o := newOptions()
	o.interval = time.Millisecond
	connectTo(o, c)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	c.interrupt = cancel
	var output bytes.Buffer
	code := execute(ctx, o, append([]string{"rotate", "--kubeconfig=" + kubeconfig(c.T)}, args...),
		Streams{Out: &output, Err: &output})
	if strings.Contains(output.String(), secretText) {
		c.Errorf("the output contains a secret:\n%s", &output)
	}
	return code, output.String()
}

func (c *rotatingCluster) data(namespace, name string) map[string][]byte {
	c.Helper()
	var s corev1.Secret
	err := c.Get(c.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s)
	if client.IgnoreNotFound(err) != nil {
		c.Fatal(err)
	}
	return s.Data
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "clouds.yaml")
	assert.NilError(t, os.WriteFile(name, content, 0o600))
	return name
}

// newCA returns a certificate in PEM.
func newCA(t *testing.T) []byte {
	t.Helper()
	config, err := crypto.MakeSelfSignedCAConfig("ca", time.Hour)
	assert.NilError(t, err)
	text, _, err := config.GetPEMBytes()
	assert.NilError(t, err)
	return text
}

func TestRotationChangesNothing(t *testing.T) {
	t.Parallel()
	old := clouds("a")
	root := func() client.Object {
		return secret(rootNamespace, rootSecret, map[string][]byte{cloudsKey: old})
	}
	guest := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	guest.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	ofHelm := secret(manilaNamespace, manilaSecret, map[string][]byte{cloudsKey: old})
	ofHelm.Annotations = map[string]string{"meta.helm.sh/release-name": "drivers"}
	foreignCA := bytes.Replace(old, []byte("    auth:"), []byte("    cacert: /ca.pem\n    auth:"), 1)
	valid, ca := file(t, clouds("b")), file(t, newCA(t))
	only := []client.Object{root()}[:1:1]
	content := func(text string) []string { return []string{file(t, []byte(text))} }
	for name, test := range map[string]struct {
		objects []client.Object
		args    []string
		code    int
		says    string
	}{
		"missing file":        {only, []string{"/nowhere"}, exitUsage, "no such file"},
		"empty":               {only, content(""), exitUsage, "empty"},
		"random":              {only, content("\x00\x7f"), exitUsage, ""},
		"text":                {only, content("hello"), exitUsage, ""},
		"other CA":            {only, content(string(foreignCA)), exitUsage, "cacert"},
		"no ini":              {only, []string{valid, "--clouds-conf=" + valid}, 2, "ini"},
		"CA of the root":      {only, []string{valid, "--cacert=" + ca}, 2, "--cacert"},
		"CA that is no PEM":   {only, []string{valid, "--cacert=" + valid}, 2, valid + " contains no"},
		"nothing to undo":     {only, []string{"--undo"}, 1, "nothing to go back"},
		"no credentials":      {nil, []string{valid}, exitFailed, "there are no credentials"},
		"manual mode":         {[]client.Object{copied(old)}, []string{valid}, exitFailed, "manual mode"},
		"guest cluster":       {append(only, guest), []string{valid}, exitFailed, "identityRef"},
		"entries of no cloud": {only, content("clouds: {a: {}, b: {}}"), 2, ""},
		"another entry": {
			only, content(strings.Replace(string(old), "openstack:", "prod:", 1)), exitUsage,
			"only the entry prod, but those who read Secret kube-system/openstack-credentials need " +
				"openstack: rename it",
		},
		"Secret of Helm": {
			[]client.Object{ofHelm}, []string{valid}, exitFailed, "helm upgrade drivers",
		},
		"dry run": {
			only,
			[]string{valid, "--dry-run"},
			exitOK,
			"Would change clouds.yaml of Secret kube-system/openstack-credentials",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRotatingCluster(t, test.objects...)
			code, output := c.rotate(test.args...)
			if code != test.code || !strings.Contains(output, test.says) ||
				!strings.Contains(output, nothingChanged) {
				t.Errorf("exit code %d:\n%s", code, output)
			}
			data := c.data(rootNamespace, rootSecret)
			if len(c.data(rootNamespace, backupSecret)) > 0 ||
				len(data) > 0 && !bytes.Equal(data[cloudsKey], old) {
				t.Error("a Secret was changed")
			}
		})
	}
	for _, args := range [][]string{
		{}, {valid, "--undo"}, {valid, valid}, {"--undo", "--cacert=" + valid},
	} {
		if code, _ := newRotatingCluster(t, root()).rotate(args...); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

func TestRotationSaysWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	old := clouds("a")
	for _, kind := range []string{"Infrastructures", "Secrets", "Deployments", "DaemonSets"} {
		c := newRotatingCluster(t, secret(rootNamespace, rootSecret, map[string][]byte{cloudsKey: old}))
		all := c.WithWatch
		c.WithWatch = interceptor.NewClient(all,
			(&scenario{Forbidden: []string{kind}}).refusals(all.Scheme()))
		code, output := c.rotate(file(t, clouds("b")))
		c.WithWatch = all
		data := c.data(rootNamespace, rootSecret)
		if code != exitFailed || !strings.Contains(output, kind) || !bytes.Equal(data[cloudsKey], old) {
			t.Errorf("%s: exit code %d, Secret %q:\n%s", kind, code, data, output)
		}
	}
}

func TestRotationNamesTheSecretOfAHostedCluster(t *testing.T) {
	t.Parallel()
	guest := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	guest.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	hosted := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"platform": map[string]any{"openstack": map[string]any{
			"identityRef": map[string]any{"name": "cloud"},
		}},
	}}}
	hosted.SetGroupVersionKind(hostedControlPlane())
	hosted.SetNamespace("clusters-a")
	hosted.SetName("a")
	hosted.SetAnnotations(map[string]string{"hypershift.openshift.io/cluster": "clusters/a"})
	c := newRotatingCluster(t, guest, hosted)
	code, output := c.rotate(file(t, clouds("b")), "--management-namespace=clusters-a",
		"--management-kubeconfig="+kubeconfig(t))
	assert.Check(t, code == exitFailed && strings.Contains(output, "in Secret clusters/cloud: follow"),
		"exit code %d:\n%s", code, output)
}

// In a rotation that does not finish, only the first of two Deployments changes. An undo that
// finishes keeps what it replaced.
func TestRotationGoesBackAfterUnfinishedOnes(t *testing.T) {
	t.Parallel()
	type step struct {
		to, argument string
		finishes     bool
		saved        string // a by default
	}
	const undo = "--undo"
	for name, steps := range map[string][]step{
		"continued": {{to: "b"}, {to: "b", finishes: true}},
		"undo": {
			{to: "b"}, {to: "c"}, {to: "a", argument: undo, finishes: true, saved: "c"},
		},
		"with the previous file": {{to: "b"}, {to: "a", finishes: true, saved: "b"}},
		"undo after an unfinished undo": {
			{to: "b", finishes: true},
			{to: "a", argument: undo},
			{to: "c"},
			{to: "a", argument: undo, finishes: true, saved: "c"},
			{to: "c", argument: undo, finishes: true},
		},
		"undo of an unfinished undo": {
			{to: "b", finishes: true},
			{to: "a", argument: undo},
			{to: "a", argument: undo, finishes: true, saved: "b"},
			{to: "b", argument: undo, saved: "b"},
			{to: "b", argument: undo, finishes: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRotatingCluster(t, copied(clouds("a")),
				secret(rootNamespace, rootSecret, map[string][]byte{cloudsKey: clouds("a")}))
			for _, s := range steps {
				c.rolls = map[string]bool{"early": true, "late": s.finishes}
				argument, want := s.argument, exitFailed
				if argument == "" {
					argument = file(t, clouds(s.to))
				}
				if s.finishes {
					want = exitOK
				}
				code, output := c.rotate(argument)
				if code != want || !s.finishes && !strings.Contains(output, "canceled, waiting until the "+
					"operator has changed Deployment/late in openshift-cluster-csi-drivers. Run the") {
					t.Errorf("to %s: exit code %d:\n%s", s.to, code, output)
				}
				assert.Check(t, bytes.Equal(c.data(rootNamespace, rootSecret)[cloudsKey], clouds(s.to)),
					"the root Secret does not contain %s", s.to)
				if s.saved == "" {
					s.saved = "a"
				}
				assert.Check(t, bytes.Equal(c.data(rootNamespace, backupSecret)[cloudsKey], clouds(s.saved)),
					"after %s the backup does not contain %s", s.to, s.saved)
			}
		})
	}
}

func TestRotationWaitsForCopies(t *testing.T) {
	t.Parallel()
	for name, login := range map[string][]client.Object{
		"without login": nil, "with login": {loginOf(t, "Cinder", clouds("a"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustWaitForCopies(newRotatingCluster(t, append(login, copied(clouds("a")), secret(rootNamespace,
				rootSecret, map[string][]byte{cloudsKey: clouds("a"), confKey: []byte("[Global]")}))...))
		})
	}
}

func mustWaitForCopies(c *rotatingCluster) {
	c.Helper()
	c.copies = false
	c.rolls = map[string]bool{"early": true, "late": true}
	conf := file(c.T, []byte("[Global]\nx=1"))
	fresh := file(c.T, clouds("b"))
	if _, output := c.rotate(fresh, "--timeout=1s"); !strings.Contains(output, "--clouds-conf") {
		c.Errorf("want a warning about clouds.conf:\n%s", output)
	}
	code, output := c.rotate(fresh, "--clouds-conf="+conf, "--timeout=3s")
	if code != exitDeadline || !strings.Contains(output, "has passed, waiting until the cloud "+
		"credential operator has copied the credentials to Secret openstack-cloud-credentials") {
		c.Errorf("exit code %d:\n%s", code, output)
	}
	c.copies, c.rewrites = true, true
	if code, output := c.rotate(fresh, "--clouds-conf="+conf, "--timeout=1m"); code != exitOK {
		c.Errorf("exit code %d:\n%s", code, output)
	}
	if got := string(c.data(rootNamespace, rootSecret)[confKey]); got != "[Global]\nx=1" {
		c.Errorf("clouds.conf is %q", got)
	}
	if code, output := c.rotate("--undo", "--timeout=1m"); code != exitOK {
		c.Errorf("exit code %d:\n%s", code, output)
	}
	if got := string(c.data(rootNamespace, rootSecret)[confKey]); got != "[Global]" {
		c.Errorf("after undo clouds.conf is %q", got)
	}
}

// Without a cloud credential operator the Secrets of the drivers are changed, each with its own
// previous content.
func TestRotationChangesTheSecretsOfTheDriversOnKubernetes(t *testing.T) {
	t.Parallel()
	before := map[string]map[string][]byte{
		manilaNamespace + "/" + manilaSecret:          {cloudsKey: clouds("m"), caKey: []byte("old CA")},
		flavour.DefaultNamespace + "/" + manilaSecret: {cloudsKey: clouds("m"), "other": []byte("x")},
		flavour.DefaultNamespace + "/" + cinderSecret: {cloudsKey: clouds("a")},
	}
	var objects []client.Object
	for key, data := range before {
		namespace, name, _ := strings.Cut(key, "/")
		objects = append(objects, secret(namespace, name, data))
	}
	c := newRotatingCluster(t, objects...)
	c.rolls = map[string]bool{"early": true, "late": true}
	ca := newCA(t)
	code, output := c.rotate(file(t, clouds("b")), "--cacert="+file(t, ca), "--timeout=1m")
	if code != exitOK || !strings.Contains(output, "Changing clouds.yaml, cacert of Secret open") {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	for key, data := range before {
		namespace, name, _ := strings.Cut(key, "/")
		want := map[string][]byte{cloudsKey: clouds("b"), caKey: ca}
		if other, ok := data["other"]; ok {
			want["other"] = other
		}
		assert.Check(t, is.DeepEqual(want, c.data(namespace, name)), key)
	}
	if code, output := c.rotate("--undo", "--timeout=1m"); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	for key, want := range before {
		namespace, name, _ := strings.Cut(key, "/")
		assert.Check(t, is.DeepEqual(want, c.data(namespace, name)), "after undo %s", key)
	}
}
