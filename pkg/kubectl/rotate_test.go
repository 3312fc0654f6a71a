package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/crypto"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
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
func cloudsYAML(name string) []byte {
	return fmt.Appendf(nil, "clouds:\n  openstack:\n    auth:\n      auth_url: https://k:5000/v3\n"+
		"      username: u\n      password: %s\n      project_name: p\n      user_domain_name: d\n"+
		"      project_domain_name: d\n# %s\n", secretText, name)
}

func secret(namespace, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data,
	}
}

// withClouds returns a Secret that contains only a clouds.yaml.
func withClouds(namespace, name string, text []byte) *corev1.Secret {
	return secret(namespace, name, map[string][]byte{cloudsKey: text})
}

// copied returns a Secret of the cloud credential operator.
func copied(clouds []byte) *corev1.Secret {
	s := withClouds(flavour.DefaultNamespace, cinderSecret, clouds)
	s.Annotations = map[string]string{requestAnnotation: "a"}
	return s
}

func newRotatingCluster(t *testing.T, objects ...client.Object) *rotatingCluster {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	c := &rotatingCluster{T: t, rolls: map[string]bool{}, copies: true}
	if !slices.ContainsFunc(objects, func(o client.Object) bool {
		return o.GetName() == "cluster" ||
			o.GetNamespace() == defaultNamespace
	}) {
		named := metav1.ObjectMeta{Name: "cluster"}
		objects = append(objects, &configv1.Infrastructure{ObjectMeta: named})
	}
	cinder := onOpenShift("Cinder")
	objects = append(objects, secret(cinder.operatorIn, cinder.operator+"-hash-key",
		map[string][]byte{"key": []byte("random")}))
	for _, name := range []string{"early", "late"} {
		objects = append(objects, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: flavour.DefaultNamespace, Name: name,
				Annotations: map[string]string{diagnosis.InputsAnnotation: "secret/" + cinderSecret + "=a"},
			},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0)},
		})
	}
	inner := fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).Build()
	c.roll(t.Context(), inner, "early")
	c.roll(t.Context(), inner, "late")
	c.WithWatch = onGet(inner, c.get)
	return c
}

// roll plays the operator, which hashes the login without comments.
func (c *rotatingCluster) roll(ctx context.Context, inner client.Client, name string) {
	var d appsv1.Deployment
	var copied corev1.Secret
	at := client.ObjectKey{Namespace: flavour.DefaultNamespace, Name: cinderSecret}
	if inner.Get(ctx, client.ObjectKey{Namespace: at.Namespace, Name: name}, &d) != nil ||
		inner.Get(ctx, at, &copied) != nil {
		return
	}
	hash, err := diagnosis.Hash([]byte("random"), "Secret "+at.String(),
		loginOf(c.T, "Cinder", copied.Data[cloudsKey]).Data)
	assert.Check(c, err)
	input := "secret/" + cinderSecret + "=" + hash
	if d.Annotations[diagnosis.InputsAnnotation] != input {
		d.Annotations[diagnosis.InputsAnnotation] = input
		assert.Check(c, inner.Update(ctx, &d))
	}
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
		assert.Check(c, inner.Update(ctx, &root))
	}
	if err == nil && c.copies && inner.Get(ctx, at, &copied) == nil &&
		!maps.EqualFunc(copied.Data, root.Data, bytes.Equal) {
		copied.Data = root.Data
		assert.Check(c, inner.Update(ctx, &copied))
	}
	if key.Name == "late" && !c.rolls["late"] {
		if c.waits++; c.waits%3 == 0 {
			c.interrupt()
		}
	}
	if c.rolls[key.Name] {
		c.roll(ctx, inner, key.Name)
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
	assert.Check(c, !strings.Contains(output.String(), secretText), "a secret: %s", &output)
	return code, output.String()
}

// mustRotate runs the command, and compares the exit code and a part of the output.
func (c *rotatingCluster) mustRotate(want int, says string, args ...string) {
	c.Helper()
	code, output := c.rotate(args...)
	assert.Assert(c, code == want && strings.Contains(output, says),
		"exit code %d, want %d and %q:\n%s", code, want, says, output)
}

func (c *rotatingCluster) data(namespace, name string) map[string][]byte {
	c.Helper()
	var s corev1.Secret
	err := c.Get(c.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s)
	assert.NilError(c, client.IgnoreNotFound(err))
	return s.Data
}

func file(tb testing.TB, content []byte) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "clouds.yaml")
	assert.NilError(tb, os.WriteFile(name, content, 0o600))
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
	old := cloudsYAML("a")
	guest := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	guest.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	plane := hosted("a", "")[0].(*unstructured.Unstructured)
	plane.SetAnnotations(map[string]string{"hypershift.openshift.io/cluster": "clusters/a"})
	assert.NilError(t, unstructured.SetNestedField(plane.Object, "cloud",
		"spec", "platform", "openstack", "identityRef", "name"))
	ofHelm := withClouds(manilaNamespace, manilaSecret, old)
	ofHelm.Annotations = map[string]string{releaseName: "drivers", releaseNamespace: "kube-system"}
	inRelease := record(t, "drivers", 1, "deployed", map[string]any{
		"manifest": "kind: Secret\nmetadata: {name: " + manilaSecret + "}",
	})
	foreignCA := bytes.Replace(old, []byte("    auth:"), []byte("    cacert: /ca.pem\n    auth:"), 1)
	valid, ca := file(t, cloudsYAML("b")), file(t, newCA(t))
	soon := simulator.Credentials{ApplicationCredentialExpiry: time.Now().Add(time.Hour)}
	cloud, _ := newCloud(t, simulator.Config{Credentials: soon})
	accepted := file(t, cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	root := withClouds(rootNamespace, rootSecret, old)
	only, onGuest := []client.Object{root}, []client.Object{root, guest, plane}
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
		"CA that is no PEM":   {only, []string{valid, "--cacert=" + valid}, 2, "is a clouds.yaml"},
		"nothing to undo":     {only, []string{"--undo"}, 1, "nothing to go back"},
		"no credentials":      {nil, []string{valid}, exitFailed, "there are no credentials"},
		"manual mode":         {[]client.Object{copied(old)}, []string{valid}, exitFailed, "manual mode"},
		"guest cluster":       {onGuest, []string{valid}, exitFailed, "identityRef"},
		"entries of no cloud": {only, content("clouds: {a: {}, b: {}}"), 2, ""},
		"another entry": {
			only, content(strings.Replace(string(old), "openstack:", "prod:", 1)), exitUsage,
			"only the entry prod, but those who read Secret kube-system/openstack-credentials need " +
				"openstack: rename it",
		},
		"guest cluster with its management": {
			onGuest,
			[]string{
				valid, "--management-namespace=clusters-a", "--management-kubeconfig=" + kubeconfig(t),
			},
			exitFailed, "in Secret clusters/cloud: follow",
		},
		"Secret of Helm": {
			[]client.Object{ofHelm, inRelease}, []string{valid}, exitFailed, "helm upgrade drivers",
		},
		"dry run": {only, []string{valid, "--dry-run"}, exitFailed, "this machine: OpenStack's identity"},
		"dry run with a login that OpenStack accepts": {
			only,
			[]string{accepted, "--dry-run"},
			exitOK,
			"way to OpenStack\nthe application credential of the login expires at ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRotatingCluster(t, test.objects...)
			code, output := c.rotate(test.args...)
			assert.Check(t, code == test.code && strings.Contains(output, test.says) &&
				strings.Contains(output, nothingChanged), "exit code %d:\n%s", code, output)
			data := c.data(rootNamespace, rootSecret)
			assert.Check(t, len(c.data(rootNamespace, backupSecret)) == 0 &&
				(len(data) == 0 || bytes.Equal(data[cloudsKey], old)), "a Secret was changed")
		})
	}
	for _, args := range [][]string{
		{}, {valid, "--undo"}, {valid, valid}, {"--undo", "--cacert=" + valid},
	} {
		newRotatingCluster(t, root).mustRotate(exitUsage, "", args...)
	}
}

func TestRotationRefusesWhatHasNoEffect(t *testing.T) {
	t.Parallel()
	old, auth := cloudsYAML("a"), []byte("    auth:")
	withPath := bytes.Replace(old, auth, []byte("    cacert: /ca.pem\n    auth:"), 1)
	flux := metav1.ObjectMeta{Labels: map[string]string{
		"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux",
	}}
	made := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{Kind: "Other", Name: "a"},
		{
			APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "cloud",
			Controller: new(true),
		},
	}}
	marked := metav1.ObjectMeta{
		Labels: map[string]string{"reconcile.external-secrets.io/managed": "true"},
	}
	written := metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "vault-secrets-operator", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}}}
	written.ManagedFields[0].FieldsV1.SetRawBytes([]byte(`{"f:data":{".":{},"f:clouds.yaml":{}}}`))
	on := &cluster{flavour: flavour.Kubernetes}
	by := on.maker(&corev1.Secret{ObjectMeta: written}) // the fake client drops managed fields
	assert.Check(t, by == "vault-secrets-operator", by)
	for says, test := range map[string]struct {
		code  int
		marks metav1.ObjectMeta
		file  []byte
	}{
		"pods do not contain that file: put the PEM into key cacert of the Secret. Add " +
			"--cacert=/ca.pem": {exitUsage, metav1.ObjectMeta{}, withPath},
		"Kustomization flux/apps of Flux manages Secret openstack-csi/openstack-credentials, and " +
			"would restore its content: change the credentials": {exitFailed, flux, old},
		"ExternalSecret cloud of external-secrets.io/v1 manages Secret openstack-csi/": {
			exitFailed, made, old,
		},
		"reconcile.external-secrets.io manages Secret": {exitFailed, marked, old},
	} {
		s := withClouds(defaultNamespace, defaultSecret, old)
		s.Labels, s.OwnerReferences = test.marks.Labels, test.marks.OwnerReferences
		newRotatingCluster(t, s).mustRotate(test.code, says, file(t, test.file))
	}
}

func TestRotationSaysWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	old := cloudsYAML("a")
	for _, kind := range []string{"Infrastructures", "Secrets", "Deployments", "DaemonSets"} {
		c := newRotatingCluster(t, withClouds(rootNamespace, rootSecret, old))
		all := c.WithWatch
		c.WithWatch = interceptor.NewClient(all,
			(&scenario{Forbidden: []string{kind}}).refusals(all.Scheme()))
		c.mustRotate(exitFailed, kind, file(t, cloudsYAML("b")))
		c.WithWatch = all
		assert.Check(t, is.DeepEqual(old, c.data(rootNamespace, rootSecret)[cloudsKey]), kind)
	}
}

// In a rotation that does not finish, only the first of two Deployments changes.
func TestRotationGoesBackAfterUnfinishedOnes(t *testing.T) {
	t.Parallel()
	type step struct {
		to, argument string
		finishes     bool
	}
	const undo = "--undo"
	for name, steps := range map[string][]step{
		"continued": {{to: "b"}, {to: "b", finishes: true}},
		"undo": {
			{to: "b"}, {to: "c"}, {to: "a", argument: undo, finishes: true},
		},
		"with the previous file": {{to: "b"}, {to: "a", finishes: true}},
		"undo after an unfinished undo": {
			{to: "b", finishes: true},
			{to: "a", argument: undo},
			{to: "c"},
			{to: "a", argument: undo, finishes: true},
			{to: "a", argument: undo, finishes: true},
		},
		"undo of an unfinished undo": {
			{to: "b", finishes: true},
			{to: "a", argument: undo},
			{to: "a", argument: undo, finishes: true},
			{to: "b"},
			{to: "a", argument: undo, finishes: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloudsYAML := func(user string) []byte { // the operator rolls out for another login
				return bytes.Replace(cloudsYAML(user), []byte("username: u"), []byte("username: "+user), 1)
			}
			c := newRotatingCluster(t, copied(cloudsYAML("a")),
				withClouds(rootNamespace, rootSecret, cloudsYAML("a")))
			for _, s := range steps {
				c.rolls = map[string]bool{"early": true, "late": s.finishes}
				argument := cmp.Or(s.argument, file(t, cloudsYAML(s.to)))
				code, says := exitFailed, "canceled, waiting until the operator has changed "+
					"Deployment/late in openshift-cluster-csi-drivers. Run the"
				if s.finishes {
					code, says = exitOK, ""
				}
				c.mustRotate(code, says, argument)
				assert.Check(t, is.DeepEqual(cloudsYAML(s.to), c.data(rootNamespace, rootSecret)[cloudsKey]))
				saved := c.data(rootNamespace, backupSecret)[cloudsKey]
				assert.Check(t, is.DeepEqual(cloudsYAML("a"), saved), s.to)
			}
		})
	}
}

// The operator rolls nothing out for a comment.
func TestRotationToTheSameLoginWaitsForNothing(t *testing.T) {
	t.Parallel()
	c := newRotatingCluster(t, copied(cloudsYAML("a")),
		withClouds(rootNamespace, rootSecret, cloudsYAML("a")))
	c.rolls = map[string]bool{}
	c.mustRotate(exitOK, "", file(t, cloudsYAML("b")), "--timeout=30s")
}

func TestRotationWaitsForCopies(t *testing.T) {
	t.Parallel()
	for name, login := range map[string][]client.Object{
		"without login": nil, "with login": {loginOf(t, "Cinder", cloudsYAML("a"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := map[string][]byte{cloudsKey: cloudsYAML("a"), confKey: []byte("[Global]")}
			c := newRotatingCluster(t, append(login, copied(cloudsYAML("a")),
				secret(rootNamespace, rootSecret, root))...)
			c.copies = false
			c.rolls = map[string]bool{"early": true, "late": true}
			fresh, conf := file(t, cloudsYAML("b")), "--clouds-conf="+file(t, []byte("[Global]\nx=1"))
			c.mustRotate(exitDeadline, "--clouds-conf", fresh, "--timeout=1s")
			c.mustRotate(exitDeadline, "has passed, waiting until the cloud credential operator has "+
				"copied the credentials to Secret openstack-cloud-credentials", fresh, conf, "--timeout=3s")
			c.copies, c.rewrites = true, true
			c.mustRotate(exitOK, "", fresh, conf, "--timeout=1m")
			got := string(c.data(rootNamespace, rootSecret)[confKey])
			assert.Check(t, is.Equal(got, "[Global]\nx=1"))
			c.mustRotate(exitOK, "", "--undo", "--timeout=1m")
			got = string(c.data(rootNamespace, rootSecret)[confKey])
			assert.Check(t, is.Equal(got, "[Global]"), "undo")
		})
	}
}

// Without a cloud credential operator the Secrets of the drivers change, each with its own backup.
func TestRotationChangesTheSecretsOfTheDrivers(t *testing.T) {
	t.Parallel()
	before := []*corev1.Secret{
		secret(manilaNamespace, manilaSecret,
			map[string][]byte{cloudsKey: cloudsYAML("m"), caKey: []byte("old CA")}),
		secret(flavour.DefaultNamespace, manilaSecret,
			map[string][]byte{cloudsKey: cloudsYAML("m"), "other": []byte("x")}),
		withClouds(flavour.DefaultNamespace, cinderSecret, cloudsYAML("a")),
	}
	c := newRotatingCluster(t, before[0], before[1], before[2])
	c.rolls = map[string]bool{"early": true, "late": true}
	ca := newCA(t)
	c.mustRotate(exitOK, "Changing clouds.yaml, cacert of Secret open", file(t, cloudsYAML("b")),
		"--cacert="+file(t, ca), "--timeout=1m")
	for _, s := range before {
		want := maps.Clone(s.Data)
		want[cloudsKey], want[caKey] = cloudsYAML("b"), ca
		assert.Check(t, is.DeepEqual(want, c.data(s.Namespace, s.Name)), "%s/%s", s.Namespace, s.Name)
	}
	c.mustRotate(exitOK, "", "--undo", "--timeout=1m")
	for _, s := range before {
		assert.Check(t, is.DeepEqual(s.Data, c.data(s.Namespace, s.Name)),
			"after undo %s/%s", s.Namespace, s.Name)
	}
	c = newRotatingCluster(t, withClouds(defaultNamespace, defaultSecret, cloudsYAML("a")),
		withClouds(rootNamespace, rootSecret, cloudsYAML("of another program")))
	c.mustRotate(exitOK, "Changing clouds.yaml of Secret openstack-csi/openstack-credentials",
		file(t, cloudsYAML("b")), "--timeout=1m")
	got := c.data(defaultNamespace, defaultSecret)[cloudsKey]
	assert.Check(t, is.Equal(string(got), string(cloudsYAML("b"))), "the Secret that drivers share")
	got = c.data(rootNamespace, rootSecret)[cloudsKey]
	assert.Check(t, is.Equal(string(got), string(cloudsYAML("of another program"))))
}

// loginOf returns the Secret that an operator generates from a clouds.yaml.
func loginOf(t *testing.T, driver string, file []byte) *corev1.Secret {
	t.Helper()
	login, err := clouds.Content{Data: map[string][]byte{cloudsKey: file}}.Login()
	assert.NilError(t, err)
	d, data := onOpenShift(driver), map[string][]byte{}
	for key, value := range d.loginOf(login) {
		data[key] = []byte(value)
	}
	return secret(d.namespace, d.loginSecret, data)
}

// refusing makes the operator of Manila refuse the login for several reasons, one after the other,
// and then do what accept does.
func (c *rotatingCluster) refusing(accept func(client.Client), reasons ...string) {
	polls, inner := 0, c.WithWatch
	c.WithWatch = onGet(inner, func(
		ctx context.Context, of client.WithWatch, key client.ObjectKey, object client.Object,
	) error {
		if err := of.Get(ctx, key, object); err != nil {
			return err
		}
		seen, ok := object.(*unstructured.Unstructured)
		if !ok || seen.GetKind() != "ClusterCSIDriver" {
			return nil
		}
		const repetitions = 3
		now := polls / repetitions
		if polls++; now >= len(reasons) {
			accept(inner)
			return nil
		}
		var driver opv1.ClusterCSIDriver
		driver.Status.Conditions = []opv1.OperatorCondition{
			{Type: "ManilaCloudReachable", Status: opv1.ConditionFalse, Message: "no route"},
			{
				Type: "ManilaCredentialsAccepted", Status: opv1.ConditionFalse,
				Reason: "AuthenticationFailed", Message: reasons[now],
			},
			{Type: "OtherCredentialsAccepted", Status: opv1.ConditionTrue, Message: "fine"},
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&driver)
		seen.Object["status"] = content["status"]
		return err
	})
}

// No workload lists the Secret of Manila's driver.
func TestRotationWaitsForTheLoginOfTheDriver(t *testing.T) {
	t.Parallel()
	const (
		refused       = "ManilaCredentialsAccepted=False AuthenticationFailed: HTTP 40"
		first, second = refused + "1\n", refused + "3\n"
		unmanaged     = "ClusterCSIDriver manila.csi.openstack.org is Unmanaged, so its operator " +
			"changes nothing. Set spec.managementState to Managed\n"
		tested = "Waiting until the operator has given the login in Secret " +
			"manila-cloud-credentials to the driver of Manila\n"
		copied = "Waiting until the cloud credential operator has copied the credentials to Secret " +
			"manila-cloud-credentials in openshift-manila-csi-driver\n"
		workload = "workload of a driver without a login"
		changed  = "Waiting until the operator has changed Deployment/late in " +
			"openshift-cluster-csi-drivers\n"
		absent  = "the operator does not run, so conditions may be out of date. Check Deployment "
		nothing = "No driver has a login, so there is nothing to wait for\n"
	)
	fresh := bytes.Replace(cloudsYAML("b"), []byte("username: u"), []byte("username: v"), 1)
	manila := withClouds(manilaNamespace, manilaSecret, cloudsYAML("a"))
	cinder := withClouds(flavour.DefaultNamespace, cinderSecret, cloudsYAML("a"))
	root := withClouds(rootNamespace, rootSecret, cloudsYAML("a"))
	login := loginOf(t, "Manila", cloudsYAML("a"))
	of := func(objects ...client.Object) []client.Object { return objects }
	for name, test := range map[string]struct {
		objects  []client.Object
		accepted bool
		code     int
		says     []string
	}{
		"accepted after refusals": {
			of(manila, login), true, exitOK, []string{tested, absent, first, second},
		},
		"never accepted": {
			of(manila, login), false, exitDeadline, []string{tested, absent, first, second},
		},
		"not copied":                 {of(manila, login, root), false, exitDeadline, []string{copied}},
		"driver without a login":     {of(manila), false, exitOK, []string{absent, first, nothing}},
		"driver without credentials": {of(login, cinder), false, exitOK, nil},
		"Unmanaged": {
			of(manila, login), false, exitDeadline, []string{tested, first, second, unmanaged},
		},
		workload: {of(manila, cinder), false, exitFailed, []string{changed, absent, first}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := &opv1.ClusterCSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: string(opv1.ManilaCSIDriver)},
			}
			driver.Spec.ManagementState = opv1.ManagementState(name)
			c := newRotatingCluster(t, append(test.objects, driver)...)
			c.rolls = map[string]bool{"early": true, "late": name != workload}
			accept, timeout := func(client.Client) {}, "--timeout=1m"
			if test.code == exitDeadline {
				timeout = "--timeout=5s"
			}
			if test.accepted {
				accept = func(to client.Client) {
					assert.Check(t, to.Update(t.Context(), loginOf(t, "Manila", fresh)))
				}
			}
			c.refusing(accept, "HTTP 401", "HTTP 403")
			code, output := c.rotate(file(t, fresh), timeout)
			assert.Check(t, code == test.code && !strings.Contains(output, "Reachable"),
				"exit code %d, want %d:\n%s", code, test.code, output)
			for _, text := range []string{
				tested, copied, changed, absent, first, second, unmanaged, nothing, "driver of Cinder",
			} {
				want := slices.Contains(test.says, text)
				n := strings.Count(output, text)
				assert.Check(t, n <= 1 && want == (n == 1), "%q %d times\n%s", text, n, output)
			}
		})
	}
}
