package kubeletvolumes

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

func secret(data map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "credentials"}, Data: map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestVolumeFollowsItsSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clouds := filepath.Join(dir, "openstack", "clouds.yaml")
	ca := filepath.Join(dir, "openstack", "ca.crt")
	client := fake.NewClientset(secret(map[string]string{"clouds.yaml": "one", "cacert": "ca"}))
	volume := Volume{
		Kind: Secret, Namespace: "ns", Name: "credentials",
		Files: map[string]string{"clouds.yaml": clouds, "cacert": ca},
	}
	err := Run(t.Context(), client, []Volume{volume}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, clouds) + " " + read(t, ca); got != "one ca" {
		t.Fatalf("files hold %q when Run returns, want %q", got, "one ca")
	}
	update := secret(map[string]string{"clouds.yaml": "two"})
	_, err = client.CoreV1().Secrets("ns").Update(t.Context(), update, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			return read(t, clouds)+" "+read(t, ca) == "two (none)", nil
		})
	if err != nil {
		t.Errorf("files hold %q and %q, want the update and no CA: %v", read(t, clouds), read(t, ca), err)
	}
}

func TestMissingObjectHasNoFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	volume := Volume{
		Kind: ConfigMap, Namespace: "ns", Name: "config", Files: map[string]string{"config.yaml": path},
	}
	err := Run(t.Context(), fake.NewClientset(), []Volume{volume}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "(none)" {
		t.Errorf("file holds %q", got)
	}
}
