package kubeletvolumes

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func TestFilesFollowObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clouds, ca := filepath.Join(dir, "openstack", "clouds.yaml"), filepath.Join(dir, "ca.crt")
	config := filepath.Join(dir, "config.yaml")
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "one"}
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{
		"clouds.yaml": []byte("first"), "cacert": []byte("ca"),
	}}
	configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"config.yaml": "third"}}
	client := fake.NewClientset(secret)
	err := Run(t.Context(), client, []Volume{
		{
			Resource: Secrets, Namespace: "ns", Name: "one",
			Files: map[string]string{"clouds.yaml": clouds, "cacert": ca},
		},
		{Resource: ConfigMaps, Namespace: "ns", Name: "one", Folder: dir},
	}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	missing := func(path string) string { return "open " + path + ": no such file or directory" }
	got := [3]string{read(clouds), read(ca), read(config)}
	if want := [3]string{"first", "ca", missing(config)}; got != want {
		t.Errorf("when Run returns, the files contain %q, want %q", got, want)
	}
	secret.Data = map[string][]byte{"clouds.yaml": []byte("second")}
	_, err = client.CoreV1().Secrets("ns").Update(t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := [3]string{"second", missing(ca), "third"}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			got = [3]string{read(clouds), read(ca), read(config)}
			return got == want, nil
		})
	if err != nil {
		t.Errorf("the files contain %q, want %q: %v", got, want, err)
	}
}

func TestVolumesOfPodsAreSecretsAndConfigMaps(t *testing.T) {
	t.Parallel()
	items := []corev1.KeyToPath{{Key: "cacert", Path: "ca.crt"}}
	name := corev1.LocalObjectReference{Name: "one"}
	want := []Volume{
		{
			Resource: Secrets, Namespace: "ns", Name: "one", Folder: "/f",
			Files: map[string]string{"cacert": "/f/ca.crt"},
		},
		{Resource: ConfigMaps, Namespace: "ns", Name: "one", Folder: "/f"},
	}
	for _, sources := range [][]corev1.VolumeSource{
		{
			{Secret: &corev1.SecretVolumeSource{SecretName: "one", Items: items}},
			{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name}},
			{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
		{{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: name, Items: items}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name}},
		}}}},
	} {
		var got []Volume
		for _, source := range sources {
			got = append(got, Of("ns", source, "/f")...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("volumes (-want +got):\n%s", diff)
		}
	}
}
