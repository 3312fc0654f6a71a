package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const driverName = "example.csi.openstack.org"

// never is the answer to a request that a driver does not answer.
const never = "never"

// answers contain what a driver answers to methods: a message, an error, or never. The answer to
// other methods is empty.
type answers map[string]any

func (a answers) answer(ctx context.Context, method string) (proto.Message, error) {
	switch answer := a[method].(type) {
	case error:
		return nil, answer
	case proto.Message:
		return answer, nil
	case string: // never
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if method == "GetIdentity" {
		return &identity.GetIdentityResponse{Name: driverName, VendorVersion: "v1"}, nil
	}
	return nil, nil
}

// serveCluster serves the objects of the tests, and returns the path of a kubeconfig.
func serveCluster(t *testing.T) string {
	t.Helper()
	objects := map[string]any{
		"/api/v1/persistentvolumes/data": corev1.PersistentVolume{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{
					Driver: driverName, VolumeHandle: "volume-1",
					NodeStageSecretRef: &corev1.SecretReference{Namespace: "csi", Name: "stage"},
				},
			}},
		},
		"/api/v1/namespaces/csi/secrets/stage": secret("stage"),
		"/api/v1/namespaces/csi/secrets/cloud": secret("cloud"),
		"/apis/replication.storage.openshift.io/v1alpha1/volumegroupreplicationcontents/" +
			"content": map[string]any{
			"apiVersion": "replication.storage.openshift.io/v1alpha1",
			"kind":       "VolumeGroupReplicationContent",
			"metadata":   map[string]any{"name": "content"},
			"spec":       map[string]any{"volumeGroupReplicationHandle": "group-1"},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object, ok := objects[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			object = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound}
		}
		assert.Check(t, json.NewEncoder(w).Encode(object))
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	config.CurrentContext = "a"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	assert.NilError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// secret returns a Secret that contains its name.
func secret(name string) corev1.Secret {
	return corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: name},
		Data:       map[string][]byte{"of": []byte(name)},
	}
}
