package kubectl

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// planted returns the Secrets of the cluster. The text planted must be nowhere.
func planted() (objects []client.Object) {
	for i, s := range []*corev1.Secret{
		secret(manilaNamespace, manilaSecret, nil), secret(manilaNamespace, "csi-manila-secrets", nil),
		secret(flavour.DefaultNamespace, cinderSecret, nil),
		secret(flavour.DefaultNamespace, "hash-key", nil), secret(rootNamespace, rootSecret, nil),
		secret(rootNamespace, backupSecret, nil),
	} {
		name := fmt.Sprintf("planted-%d", i)
		s.Data = map[string][]byte{
			cloudsKey: bytes.ReplaceAll(cloudsYAML("a"), []byte(secretText), []byte(name+"-clouds")),
			confKey:   []byte("[Global]\npassword = \"" + name + "-conf\"\n"),
			"key":     []byte(name + "-key"), "os-password": []byte(name + "-password\n"),
		}
		if s.Name == backupSecret { // in manual mode
			s.Data = map[string][]byte{manilaNamespace + "." + manilaSecret + "." + cloudsKey: bytes.
				ReplaceAll(cloudsYAML("a"), []byte(secretText), []byte(name+"-clouds"))}
		}
		s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{data: {" +
			"key: " + base64.StdEncoding.EncodeToString(s.Data["key"]) + "}}"}
		objects = append(objects, s)
	}
	return objects
}

// ofAdministrators returns objects in openshift-config. The operators do not read the last.
func ofAdministrators() (objects []client.Object) {
	for name, data := range map[string]map[string]string{
		"manila-csi-config":     {"operator.yaml": "defaultClass: gold"},
		"cloud-provider-config": {"config": "[Global]\npassword = planted-config\n"},
		"other":                 {"a": "planted-other"},
	} {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: name}, Data: data,
		})
	}
	return objects
}

// ofUsers returns events of claims of a driver and of another claim, and an object of CSI-Addons.
// The former driver of Kubernetes created the volume of the last claim.
func ofUsers() []client.Object {
	event := func(name, of, message string) client.Object {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
			InvolvedObject: corev1.ObjectReference{UID: types.UID(of)}, Message: message,
		}
	}
	volume, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}
	volume.Name, claim.Name, claim.Namespace, claim.UID = "former", "former", "shop", "former"
	volume.Spec.Cinder = &corev1.CinderPersistentVolumeSource{VolumeID: "volume-8"}
	claim.Spec.VolumeName = volume.Name
	return []client.Object{
		volume, claim, event("c", "former", "it moves"),
		event("a", "disk", "it waits"), event("b", "other", "planted-event"),
		&v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job"}},
	}
}

// gather runs must-gather in a cluster with more objects. It returns the folder, and what the
// command prints behind its name.
func gather(t *testing.T, o *options, more ...client.Object) (dir, output string) {
	t.Helper()
	c, err := o.connect(nil)
	assert.NilError(t, err)
	for _, object := range more {
		assert.NilError(t, c.Create(t.Context(), object))
	}
	dir = filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := run(t, o, false, "must-gather", dir)
	first, rest, _ := strings.Cut(stdout, "\n")
	incomplete := strings.Contains(stderr, "the folder is incomplete: ")
	assert.Assert(t, (code == exitFailed) == incomplete && (code == exitOK) == (stderr == "") &&
		strings.HasPrefix(first, "The folder "+dir), stdout+stderr)
	return dir, rest + stderr
}

func TestMustGatherContainsNoSecret(t *testing.T) {
	t.Parallel()
	o := (&scenario{}).options(t)
	leak := &corev1.ConfigMap{Data: map[string]string{
		"leak":  "the driver logs in with planted-0-clouds, planted-1-conf and planted-2-key",
		"proxy": "http://user:planted-3-proxy@proxy:3128",
	}}
	leak.Namespace, leak.Name = manilaNamespace, "leak"
	o.readLogs = logsOf(func(pod *corev1.Pod) (string, error) {
		if strings.HasSuffix(pod.Name, "-klmno") {
			return "", errors.New("the node planted-0-key does not answer")
		}
		return "username: u failed with planted-3-password, planted-4-conf and planted-5-clouds\n", nil
	})
	secrets := append(planted(), leak)
	dir, output := gather(t, o, slices.Concat(secrets, ofAdministrators(), ofUsers())...)
	assert.Check(t, is.Contains(output, "1 logs could not be read, and their files contain the "+
		"errors: "+
		"csi-driver of pod openstack-manila-csi-controllerplugin-6f9d-klmno\n"))
	mustNotContain(t, dir, output, "planted")
	mustHaveFiles(t, dir)
	code, _, _ := run(t, o, false, "must-gather", dir)
	assert.Check(t, is.Equal(code, exitUsage), "a folder that is not empty")
}

// mustNotContain checks that neither the output nor a file contains a text, also not as base64.
func mustNotContain(t *testing.T, dir, output string, texts ...string) {
	t.Helper()
	search := func(where, content string) {
		for _, text := range texts {
			encoded := base64.StdEncoding.EncodeToString([]byte(text + "-"))
			for _, form := range []string{text, encoded[:len(encoded)-4]} {
				assert.Check(t, !strings.Contains(content, form), "%s contains %s:\n%s", where, form, content)
			}
		}
	}
	search("the output", output)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		search(path, string(content))
		return err
	})
	assert.NilError(t, err)
}

// mustHaveFiles checks some files, with the structure of `oc adm inspect`.
func mustHaveFiles(t *testing.T, dir string) {
	t.Helper()
	const manila, cluster = "namespaces/openshift-manila-csi-driver/", "cluster-scoped-resources/"
	const drivers = cluster + "operator.openshift.io/clustercsidrivers/"
	const pod = manila + "pods/openstack-manila-csi-controllerplugin-6f9d-"
	const log = "/csi-driver/csi-driver/logs/current.log"
	const hidden = "with (redacted), (redacted) and (redacted)"
	const failed = "username: u failed " + hidden + "\n"
	const noAnswer = "the node (redacted) does not answer\n"
	const shop = "namespaces/shop/"
	for file, want := range map[string]string{
		"status.yaml": "apiVersion: kubectl.csi.openstack.org/v1alpha1\n",
		"namespaces/openshift-config/core/configmaps.yaml":          "operator.yaml: 'default",
		shop + "core/persistentvolumeclaims.yaml":                   "name: disk",
		shop + "core/events.yaml":                                   "it moves",
		shop + "csiaddons.openshift.io/reclaimspacejobs.yaml":       "name: job",
		cluster + "storage.k8s.io/storageclasses/standard-csi.yaml": "provisioner:",
		drivers + "manila.csi.openstack.org.yaml":                   "status:",
		manila + "apps/deployments.yaml":                            "kind: Deployment",
		manila + "coordination.k8s.io/leases.yaml":                  "kind: Lease",
		manila + "core/secrets.yaml":                                "key: 20 characters of base64",
		manila + "core/configmaps.yaml":                             hidden,
		pod + "fghij" + log:                                         failed,
		pod + "klmno" + log:                                         noAnswer,
	} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		assert.Check(t, err)
		assert.Check(t, is.Contains(string(content), want), file)
	}
}

// Without permission for Secrets, also of administrators, nobody can check logs for their values.
func TestMustGatherSaysWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	limited, withoutRoot := scenario{Forbidden: []string{"Secrets", "ConfigMaps"}}, newOptions()
	connectTo(withoutRoot, onGet((&scenario{}).client(t), forbidden(rootNamespace)))
	for kinds, o := range map[string]*options{
		"ConfigMaps, Secrets": limited.options(t), "Secrets": withoutRoot,
	} {
		o.readLogs = logsOf(func(*corev1.Pod) (string, error) { return "ok", nil })
		_, output := gather(t, o)
		want := "Not visible: " + kinds + ", logs (values of Secrets are not known).\nkubectl " +
			"openstack-csi: the folder is incomplete: it lacks logs, which are not visible\n"
		assert.Check(t, is.DeepEqual(want, output), "output")
	}
}

// The values are in the forms in which other objects contain them, and in files of other names.
func TestMustGatherFindsSecretsInOtherForms(t *testing.T) {
	t.Parallel()
	const words, special = "planted with several words", `planted"<&>\special`
	applied, err := json.Marshal(map[string]string{"a": special})
	assert.NilError(t, err)
	leak := &corev1.ConfigMap{Data: map[string]string{
		"long": strings.Repeat("word ", 14) + words, "id": special,
		"quoted": fmt.Sprintf("%q", special), "conf": "planted-conf", "docker": "planted-docker",
	}}
	leak.Annotations = map[string]string{"applied": string(applied)}
	leak.Namespace, leak.Name = manilaNamespace, "leak"
	o := (&scenario{}).options(t)
	dir, output := gather(t, o, leak, secret(manilaNamespace, "a", map[string][]byte{
		"words": []byte(words), "special": []byte(special), "namespace": []byte(manilaNamespace),
		"cloud.conf": []byte("[Global]\npassword = \"planted-conf\"\n"),
		"docker":     []byte(`{"auths":{"registry":{"password":"planted-docker","auth":"YTpi"}}}`),
		"kubeconfig": []byte("apiVersion: v1\nkind: ConfigMap\nitems:\n"),
	}))
	mustNotContain(t, dir, output, "planted", "several")
	text, err := os.ReadFile(filepath.Join(dir, "namespaces", manilaNamespace, "core",
		"configmaps.yaml"))
	var list corev1.ConfigMapList
	assert.NilError(t, errors.Join(err, yaml.UnmarshalStrict(text, &list)))
	assert.Check(t, list.Kind == "List" && list.Items[0].Namespace == manilaNamespace, "%s", text)
}

// Whoever serves the API of snapshots chooses the names of objects.
func TestMustGatherWritesOnlyIntoItsFolder(t *testing.T) {
	t.Parallel()
	class := &snapshotv1.VolumeSnapshotClass{Driver: "x", DeletionPolicy: "Delete"}
	class.Name = "../../../../outside"
	dir, _ := gather(t, (&scenario{}).options(t), class)
	entries, err := os.ReadDir(filepath.Dir(dir))
	assert.Check(t, err == nil && len(entries) == 1, "want only the folder: %v, %v", entries, err)
	files, err := filepath.Glob(filepath.Join(dir, "cluster-scoped-resources", "*",
		"volumesnapshotclasses", "*outside.yaml"))
	assert.Check(t, err == nil && len(files) == 1, "want a file for the object: %v, %v", files, err)
}
