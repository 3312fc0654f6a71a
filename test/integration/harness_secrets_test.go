//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// secretTexts are texts that only Secrets and the operator's files may contain.
type secretTexts struct {
	// always are passwords of the cloud, tokens and keys.
	always []string
	// proxies are passwords of proxies. Proxies, observed configuration and the environment of
	// containers contain them.
	proxies []string
}

// secretTexts returns the planted secrets, the tokens that the cloud has issued, and the keys in
// Secrets and kubeconfigs. The log of a request's body contains the data of a Secret as base64.
func (e *env) secretTexts(ctx context.Context) (secretTexts, error) {
	texts := secretTexts{proxies: e.proxyPasswords, always: e.cloud.IssuedTokens()}
	for _, secret := range e.secrets {
		texts.always = append(append(texts.always, secret), base64Forms(secret)...)
	}
	for _, c := range e.clusters() {
		all, err := c.kube.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return texts, err
		}
		for _, secret := range all.Items {
			keys, err := keysOf(secret)
			if err != nil {
				return texts, err
			}
			texts.always = append(texts.always, keys...)
		}
	}
	operator, err := clientcmd.LoadFromFile(e.files.Kubeconfig(e.subject.Name))
	if err != nil {
		return texts, err
	}
	texts.always = append(texts.always, keysOfKubeconfig(operator)...)
	return texts, nil
}

// base64Forms returns the parts that are common to the base64 encodings of all texts that contain
// the secret. There are three, because the encoding depends on the position of the secret.
func base64Forms(secret string) []string {
	var forms []string
	for before := range 3 {
		text := strings.Repeat("x", before) + secret
		encoded := base64.RawStdEncoding.EncodeToString([]byte(text))
		forms = append(forms, encoded[(before*8+5)/6:len(text)*8/6])
	}
	return forms
}

// keysOf returns the private keys and the tokens in a Secret.
func keysOf(secret corev1.Secret) ([]string, error) {
	keys := privateKeys(secret.Data[corev1.TLSPrivateKeyKey])
	if strings.HasSuffix(secret.Name, "-hash-key") {
		for _, value := range secret.Data {
			keys = append(keys, string(value), base64.StdEncoding.EncodeToString(value))
		}
	}
	if text := secret.Data[kubeconfigKey]; bytes.Contains(text, []byte("kind: Config")) {
		kubeconfig, err := clientcmd.Load(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, keysOfKubeconfig(kubeconfig)...)
	}
	return keys, nil
}

// keysOfKubeconfig returns the tokens and the client keys of a kubeconfig.
func keysOfKubeconfig(config *clientcmdapi.Config) []string {
	var keys []string
	for _, user := range config.AuthInfos {
		if user.Token != "" {
			keys = append(keys, user.Token)
		}
		keys = append(keys, privateKeys(user.ClientKeyData)...)
	}
	return keys
}

// privateKeys returns the lines of the PEM blocks with private keys, and the base64 of the text. It
// returns nothing for other texts.
func privateKeys(text []byte) []string {
	block, _ := pem.Decode(text)
	if block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	keys := slices.DeleteFunc(lines, func(line string) bool {
		return len(line) < 64 || strings.HasPrefix(line, "-")
	})
	// The first line begins with the type of the key, which is no secret.
	return append(keys[min(1, len(keys)):], base64.StdEncoding.EncodeToString(text))
}

// found returns the secrets that a text contains.
func found(text string, secrets []string) []string {
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool {
		return !strings.Contains(text, secret)
	})
}

// mustContainNoSecrets searches a text that contains no object.
func (e *env) mustContainNoSecrets(what, text string, secrets secretTexts) {
	e.t.Helper()
	if found := found(text, slices.Concat(secrets.always, secrets.proxies)); len(found) > 0 {
		e.t.Errorf("%s: it contains the secrets %q", what, found)
	}
}

// checkSecrets searches for secrets in the operator's log and metrics, the audit logs, and the
// objects of readableResources.
func (e *env) checkSecrets(ctx context.Context, metrics string) {
	e.t.Helper()
	secrets, err := e.secretTexts(ctx)
	assert.Check(e.t, err, "collecting secrets")
	e.mustContainNoSecrets("the operator's log", e.log(), secrets)
	e.mustContainNoSecrets("the operator's metrics", metrics, secrets)
	for _, c := range e.clusters() {
		text, err := textFrom(c.dir.AuditLog(), e.began.offsets[c])
		assert.Check(e.t, err, "reading the audit log")
		e.mustContainNoSecrets("the audit log of the "+c.name+" cluster", text, secrets)
		for _, resource := range readableResources() {
			e.checkObjects(ctx, c, resource, secrets)
		}
	}
}

// textFrom returns the content of a file after an offset.
func textFrom(path string, offset int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}

// readableResources returns the resources that a test may change, except Secrets.
func readableResources() []schema.GroupVersionResource {
	all := append(resettableResources(), clusterCSIDrivers())
	for _, in := range configCollections() {
		all = append(all, in.resource)
	}
	return slices.DeleteFunc(all, func(r schema.GroupVersionResource) bool { return r == secrets() })
}

// checkObjects searches all objects of a resource for secrets.
func (e *env) checkObjects(
	ctx context.Context, c *cluster, resource schema.GroupVersionResource, secrets secretTexts,
) {
	e.t.Helper()
	objects, err := c.list(ctx, collection{resource, metav1.NamespaceAll})
	assert.Check(e.t, err)
	for _, object := range objects {
		if resource == configMaps() && object.GetName() == cinderUserConfig {
			continue // only the administrator writes it
		}
		leaks, err := leaksOf(resource, object, secrets)
		assert.Check(e.t, err)
		if len(leaks) > 0 {
			e.t.Errorf("%s %s of the %s cluster contains the secrets %q", resource.Resource, key(object),
				c.name, leaks)
		}
	}
}

// checkDriverForSecrets searches the ClusterCSIDriver, which contains the conditions, for the
// planted secrets.
func (e *env) checkDriverForSecrets() {
	e.t.Helper()
	e.checkObjects(e.ctx(), e.guest, clusterCSIDrivers(), secretTexts{always: e.secrets})
}

// leaksOf returns the secrets that an object contains and must not contain.
func leaksOf(
	resource schema.GroupVersionResource, object unstructured.Unstructured, secrets secretTexts,
) ([]string, error) {
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	leaks := found(string(text), secrets.always)
	if resource == configResource("proxies") {
		return leaks, nil
	}
	text, err = json.Marshal(withoutProxies(object.Object))
	return append(leaks, found(string(text), secrets.proxies)...), err
}

// withoutProxies returns a copy of a part of an object without the fields that contain proxies: the
// environment of containers, and the observed configuration of a ClusterCSIDriver.
func withoutProxies(part any) any {
	switch part := part.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, field := range part {
			if name != "env" && name != "observedConfig" {
				kept[name] = withoutProxies(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(part))
		for _, element := range part {
			kept = append(kept, withoutProxies(element))
		}
		return kept
	default:
		return part
	}
}

// metricsText returns what the operator serves at /metrics, or "" if it does not serve.
func (e *env) metricsText(ctx context.Context) string {
	e.t.Helper()
	if e.operator == nil || !e.operator.Running() {
		return ""
	}
	token, err := e.prometheusToken(ctx)
	if err != nil {
		e.t.Logf("the metrics are not searched for secrets: %v", err)
		return ""
	}
	status, text, err := e.fetch(ctx, "/metrics", token)
	if err != nil || status != http.StatusOK {
		e.t.Logf("the metrics are not searched for secrets: status %d, %v", status, err)
		return ""
	}
	return text
}
