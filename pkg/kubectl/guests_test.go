package kubectl

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/test/budget"
)

// hosted returns a HostedControlPlane and the Secret with its kubeconfig.
func hosted(name, kubeconfig string) []client.Object {
	plane := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"platform": map[string]any{"type": "OpenStack"}},
		"status": map[string]any{
			"kubeConfig": map[string]any{"name": "admin-kubeconfig", "key": "kubeconfig"},
		},
	}}
	plane.SetGroupVersionKind(hostedControlPlane())
	plane.SetNamespace("clusters-" + name)
	plane.SetName(name)
	return []client.Object{plane, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters-" + name, Name: "admin-kubeconfig"},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}}
}

func guestKubeconfig(server string) string {
	return "{current-context: a, clusters: [{name: a, cluster: {server: '" + server + "'}}], " +
		"contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {token: t}}]}"
}

// management returns the client of a management cluster. The control plane of guest a is that of
// objects.yaml, and the Secret of guest "secret" may not be read.
func management(t *testing.T) client.WithWatch {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	var all []unstructured.Unstructured
	decode(t, "testdata/objects.yaml", &all)
	var objects []client.Object
	for i := range all {
		if all[i].GetNamespace() != "" {
			all[i].SetNamespace("clusters-a")
			objects = append(objects, &all[i])
		}
	}
	for _, name := range []string{"a", "gone", "silent", "secret"} {
		objects = append(objects, hosted(name, guestKubeconfig("https://"+name))...)
	}
	other := hosted("other", "")[0].(*unstructured.Unstructured)
	_ = unstructured.SetNestedField(other.Object, "KubeVirt", "spec", "platform", "type")
	objects = append(objects, append(hosted("quotes", "password"), other)...)
	return onGet(fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).Build(),
		forbidden("clusters-secret"))
}

func TestAllGuestsPrintsTheWorstFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := (&scenario{}).options(t)
		provider, guest := management(t), (&scenario{}).client(t)
		silent := onGet(guest, func(
			ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object,
		) error {
			<-ctx.Done()
			return ctx.Err()
		})
		o.connect = func(config *rest.Config) (client.WithWatch, error) {
			switch config.Host {
			case "https://a", "https://gone":
				return guest, nil
			case "https://silent":
				return silent, nil
			}
			return provider, nil
		}
		code, stdout, stderr := run(t, o, false, "status", "--all-guests")
		const want = `  !!  clusters-gone/gone: Cinder: the operator does not run, so conditions may
      be out of date. Check Deployment
      clusters-gone/openstack-cinder-csi-driver-operator, which does not exist
      (and 1 more)
      ` + "https://github.com/openstack-csi/csi-operator/blob/main/docs/runbooks.md" +
			`#openstackcsioperatorabsent
  !!  clusters-quotes/quotes: Secret clusters-quotes/admin-kubeconfig contains
      no kubeconfig in key kubeconfig
  !!  clusters-secret/secret: reading Secret clusters-secret/admin-kubeconfig:
      secrets "admin-kubeconfig" is forbidden: RBAC
  !!  clusters-silent/silent: the guest cluster did not answer within 10s
  ok  clusters-a/a
`
		assert.Check(t, code == exitFailed && stderr == "", "exit code %d, %s", code, stderr)
		assert.Check(t, is.DeepEqual(want, stdout))
		_, stdout, _ = run(t, o, false, "status", "--all-guests", "-o=json")
		assert.Check(t, strings.Contains(stdout, `"kind": "Guests"`) &&
			strings.Count(stdout, `"guest": `) == 5 && !strings.Contains(stdout, "null"),
			"as JSON: %s", stdout)
	})
}

// Whoever may write the Secret must not run programs on the machine of the provider.
func TestGuestConfigUsesOnlyDataOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	const text = `
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: 'https://guest', certificate-authority-data: Y2E=,
  certificate-authority: /ca, proxy-url: 'http://proxy', insecure-skip-tls-verify: true}}]
users: [{name: a, user: {token: t, tokenFile: /token, client-certificate: /crt, client-key: /key,
  client-certificate-data: Y3J0, client-key-data: a2V5, username: u, password: p, as: root,
  exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never},
  auth-provider: {name: oidc}}}]`
	for kubeconfig, want := range map[string]*rest.Config{
		text: {
			Host: "https://guest", BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{
				CAData: []byte("ca"), CertData: []byte("crt"), KeyData: []byte("key"),
			},
		},
		strings.Replace(text, "https", "http", 1): nil,
		guestKubeconfig(""):                       nil,
		strings.Replace(guestKubeconfig("https://a"), "token: t", "tokenFile: /token", 1): nil,
		"": nil,
	} {
		objects := hosted("a", kubeconfig)
		from := &cluster{WithWatch: fake.NewClientBuilder().WithObjects(objects[1]).Build()}
		got, err := guestConfig(t.Context(), from, *objects[0].(*unstructured.Unstructured))
		assert.Check(t, is.DeepEqual(want, got), "configuration")
		assert.Check(t, (err == nil) == (want != nil), "error %v", err)
	}
}

// FuzzGuestConfig searches for a kubeconfig of a guest cluster that costs too much.
func FuzzGuestConfig(f *testing.F) {
	const size = maxKubeconfig
	for _, text := range append(budget.YAML("kind: Config", "", size),
		budget.YAML("kind: Config\nclusters:\n- name: x\n  cluster:", "    ", size)...) {
		f.Add(text)
	}
	f.Add(strings.Repeat("#", size+1))
	f.Fuzz(func(t *testing.T, text string) {
		objects := hosted("a", text)
		from := &cluster{WithWatch: fake.NewClientBuilder().WithObjects(objects[1]).Build()}
		budget.Check(t, func() {
			_, _ = guestConfig(t.Context(), from, *objects[0].(*unstructured.Unstructured))
		})
	})
}

// answers is a transport with answers of a guest cluster.
type answers struct {
	status int
	body   io.Reader
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(a.body)}, nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestGuestCannotRedirectOrFillTheMemory(t *testing.T) {
	t.Parallel()
	_, err := bounded{answers{http.StatusFound, endless{}}}.RoundTrip(nil) //nolint:bodyclose // none
	assert.ErrorIs(t, err, errRedirected)
	response, err := bounded{answers{http.StatusOK, endless{}}}.RoundTrip(nil)
	assert.NilError(t, err)
	n, err := io.Copy(io.Discard, response.Body)
	assert.ErrorIs(t, err, errTooLong)
	assert.Check(t, n <= maxResponse, "%d bytes are read", n)
	assert.NilError(t, response.Body.Close())
}
