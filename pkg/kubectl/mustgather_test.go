package kubectl

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// planted returns the Secrets of the cluster, and the texts that must be nowhere.
func planted() ([]client.Object, []string) {
	var objects []client.Object
	var texts []string
	for i, s := range []*corev1.Secret{
		secret(manilaNamespace, manilaSecret, nil), secret(manilaNamespace, "csi-manila-secrets", nil),
		secret(flavour.DefaultNamespace, cinderSecret, nil),
		secret(flavour.DefaultNamespace, "hash-key", nil),
	} {
		name := fmt.Sprintf("planted-%d", i)
		s.Data = map[string][]byte{
			cloudsKey: bytes.ReplaceAll(clouds("a"), []byte(secretText), []byte(name+"-clouds")),
			confKey:   []byte("[Global]\npassword = \"" + name + "-conf\"\n"),
			"key":     []byte(name + "-key"), "os-password": []byte(name + "-password\n"),
		}
		s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{data: {" +
			"key: " + base64.StdEncoding.EncodeToString(s.Data["key"]) + "}}"}
		objects = append(objects, s)
		texts = append(texts, name)
	}
	return objects, texts
}

func TestMustGatherContainsNoSecret(t *testing.T) {
	t.Parallel()
	var healthy scenario
	secrets, texts := planted()
	o := healthy.options(t)
	c, err := o.connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	leak := &corev1.ConfigMap{Data: map[string]string{
		"leak":  "the driver logs in with planted-0-clouds, planted-1-conf and planted-2-key",
		"proxy": "http://user:planted-3-proxy@proxy:3128",
	}}
	leak.Namespace, leak.Name = manilaNamespace, "leak"
	for _, object := range append(secrets, leak) {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	o.readLogs = func(*rest.Config) (logReader, error) {
		return func(_ context.Context, pod *corev1.Pod, _ *corev1.PodLogOptions) ([]byte, error) {
			if strings.HasSuffix(pod.Name, "-klmno") {
				return nil, errors.New("the node planted-0-key does not answer")
			}
			return []byte("login with planted-3-password failed\n"), nil
		}, nil
	}
	dir := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := run(t, o, false, "must-gather", dir)
	if code != exitOK || !strings.HasPrefix(stdout, "The folder "+dir) {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	mustNotContain(t, dir, texts)
	mustHaveFiles(t, dir)
	if code, _, stderr := run(t, o, false, "must-gather", dir); code != exitUsage {
		t.Errorf("a folder that is not empty: exit code %d: %s", code, stderr)
	}
}

// mustNotContain checks that no file contains a text, also not as base64.
func mustNotContain(t *testing.T, dir string, texts []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range texts {
			encoded := base64.StdEncoding.EncodeToString([]byte(text + "-"))
			for _, form := range []string{text, encoded[:len(encoded)-4]} {
				if bytes.Contains(content, []byte(form)) {
					t.Errorf("%s contains %s:\n%s", path, form, content)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mustHaveFiles checks some files, with the structure of `oc adm inspect`.
func mustHaveFiles(t *testing.T, dir string) {
	t.Helper()
	const manila, cluster = "namespaces/openshift-manila-csi-driver/", "cluster-scoped-resources/"
	const drivers = cluster + "operator.openshift.io/clustercsidrivers/"
	const pod = manila + "pods/openstack-manila-csi-controllerplugin-6f9d-"
	const log = "/csi-driver/csi-driver/logs/current.log"
	const hidden = "with (redacted), (redacted) and (redacted)"
	const noAnswer = "the node (redacted) does not answer\n"
	const config, other = manila + "core/configmaps.yaml", pod + "klmno" + log
	for file, want := range map[string]string{
		"status.yaml": "leader: openstack-manila-csi-controllerplugin-6f9d-fghij",
		cluster + "storage.k8s.io/storageclasses/standard-csi.yaml": "provisioner:",
		drivers + "manila.csi.openstack.org.yaml":                   "status:",
		manila + "apps/deployments.yaml":                            "kind: Deployment",
		manila + "coordination.k8s.io/leases.yaml":                  "kind: Lease",
		manila + "core/secrets.yaml":                                "key: 20 characters of base64",
		config:                                                      hidden,
		pod + "fghij" + log:                                         "login with (redacted) failed\n",
		other:                                                       noAnswer,
	} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(content), want) {
			t.Errorf("%s does not contain %q:\n%s", file, want, content)
		}
	}
}

// Without the permission for Secrets nobody can check logs for their values.
func TestMustGatherSaysWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	limited := scenario{Forbidden: []string{"Secrets", "ConfigMaps"}}
	o := limited.options(t)
	o.readLogs = func(*rest.Config) (logReader, error) {
		return func(context.Context, *corev1.Pod, *corev1.PodLogOptions) ([]byte, error) {
			return []byte("ok"), nil
		}, nil
	}
	code, stdout, stderr := run(t, o, false, "must-gather", filepath.Join(t.TempDir(), "out"))
	_, got, _ := strings.Cut(stdout, "\n")
	want := "Not visible: ConfigMaps, Secrets, logs (values of Secrets are not known).\n"
	if diff := cmp.Diff(want, got); diff != "" || code != exitOK {
		t.Errorf("exit code %d, %s, output (-want +got):\n%s", code, stderr, diff)
	}
}
