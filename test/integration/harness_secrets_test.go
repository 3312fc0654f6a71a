//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
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

func found(text string, secrets []string) []string {
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool {
		return !strings.Contains(text, secret)
	})
}

// mustContainNoSecrets fails the test if a text contains one of the secrets.
func (e *env) mustContainNoSecrets(what, text string, secrets []string) {
	e.t.Helper()
	if found := found(text, secrets); len(found) > 0 {
		e.t.Errorf("%s: it contains the secrets %q", what, found)
	}
}

// checkSecrets searches for secrets in the operator's log and metrics, the audit logs, and all
// objects except Secrets.
func (e *env) checkSecrets(ctx context.Context, metrics string) {
	e.t.Helper()
	secrets, err := e.secretTexts(ctx)
	assert.Check(e.t, err, "collecting secrets")
	all := slices.Concat(secrets.always, secrets.proxies)
	e.mustContainNoSecrets("the operator's log", e.log(), all)
	e.mustContainNoSecrets("the operator's metrics", metrics, all)
	for _, c := range e.clusters() {
		text, err := textFrom(c.dir.AuditLog(), e.began.offsets[c])
		assert.Check(e.t, err, "reading the audit log")
		e.mustContainNoSecrets("the audit log of the "+c.name+" cluster", text, all)
		objects, err := c.store.Objects(ctx)
		assert.Check(e.t, err)
		for key, object := range objects {
			if strings.HasPrefix(key, "secrets/") ||
				strings.HasSuffix(key, "/"+cinderUserConfig) { // only the administrator writes it
				continue
			}
			key += " of the " + c.name + " cluster"
			e.mustContainNoSecrets(key, string(object), secrets.always)
			if len(secrets.proxies) > 0 && !strings.HasPrefix(key, "config.openshift.io/proxies/") {
				e.mustContainNoSecrets(key, outsideOfProxies(object), secrets.proxies)
			}
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
	text, err := io.ReadAll(io.NewSectionReader(file, offset, math.MaxInt64-offset))
	return string(text), err
}

// checkDriverForSecrets searches the ClusterCSIDriver, which contains the conditions, for the
// planted secrets.
func (e *env) checkDriverForSecrets() {
	e.t.Helper()
	driver, err := e.driver()
	e.must(err)
	text, err := json.Marshal(driver)
	e.must(err)
	e.mustContainNoSecrets("the ClusterCSIDriver", string(text), e.secrets)
}

// fieldsOf returns the fields of an object in etcd, which contains Kubernetes' own types as
// protobuf and others as JSON.
func fieldsOf(object []byte) (map[string]any, error) {
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(object, nil, nil)
	if err == nil {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(decoded)
	}
	var fields map[string]any
	return fields, json.Unmarshal(object, &fields)
}

// outsideOfProxies returns an object in etcd as JSON without the fields that contain proxies. An
// object that cannot be decoded has none.
func outsideOfProxies(object []byte) string {
	if fields, err := fieldsOf(object); err == nil {
		if text, err := json.Marshal(withoutProxies(fields)); err == nil {
			return string(text)
		}
	}
	return string(object)
}

// withoutProxies returns a part of an object without the fields that contain proxies: the
// environment of containers, and the observed configuration of a ClusterCSIDriver.
func withoutProxies(part any) any {
	switch part := part.(type) {
	case map[string]any:
		delete(part, "env")
		delete(part, "observedConfig")
		for name, field := range part {
			part[name] = withoutProxies(field)
		}
	case []any:
		for i, element := range part {
			part[i] = withoutProxies(element)
		}
	}
	return part
}
