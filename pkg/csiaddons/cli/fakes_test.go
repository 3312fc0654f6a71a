package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const driverName = "example.csi.openstack.org"

// fakeDriver records the last request of each type. It answers every request with an empty message,
// unless answers contains another answer or an error for the method.
type fakeDriver struct {
	mu       sync.Mutex
	requests map[string]proto.Message
	answers  map[string]any
}

// answer returns what the driver answers to a request of a method.
func (d *fakeDriver) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	d.mu.Lock()
	d.requests[method] = request.(proto.Message)
	answer, ok := d.answers[method]
	d.mu.Unlock()
	if method == "GetIdentity" && !ok {
		return &identity.GetIdentityResponse{Name: driverName, VendorVersion: "v1"}, nil
	}
	switch answer := answer.(type) {
	case error:
		return nil, answer
	case proto.Message:
		return answer, nil
	case nil:
		return emptyAnswer(method), nil
	default: // wait until the caller gives up
		<-ctx.Done()
		return handler(ctx, request)
	}
}

// emptyAnswer returns the empty answer of a method.
func emptyAnswer(method string) proto.Message {
	return map[string]proto.Message{
		"GetCapabilities":               &identity.GetCapabilitiesResponse{},
		"Probe":                         &identity.ProbeResponse{},
		"ControllerReclaimSpace":        &reclaimspace.ControllerReclaimSpaceResponse{},
		"NodeReclaimSpace":              &reclaimspace.NodeReclaimSpaceResponse{},
		"EncryptionKeyRotate":           &encryptionkeyrotation.EncryptionKeyRotateResponse{},
		"FenceClusterNetwork":           &fence.FenceClusterNetworkResponse{},
		"UnfenceClusterNetwork":         &fence.UnfenceClusterNetworkResponse{},
		"GetFenceClients":               &fence.GetFenceClientsResponse{},
		"ListClusterFence":              &fence.ListClusterFenceResponse{},
		"EnableVolumeReplication":       &replication.EnableVolumeReplicationResponse{},
		"DisableVolumeReplication":      &replication.DisableVolumeReplicationResponse{},
		"PromoteVolume":                 &replication.PromoteVolumeResponse{},
		"DemoteVolume":                  &replication.DemoteVolumeResponse{},
		"ResyncVolume":                  &replication.ResyncVolumeResponse{},
		"GetVolumeReplicationInfo":      &replication.GetVolumeReplicationInfoResponse{},
		"GetReplicationDestinationInfo": &replication.GetReplicationDestinationInfoResponse{},
		"CreateVolumeGroup":             &volumegroup.CreateVolumeGroupResponse{},
		"ModifyVolumeGroupMembership":   &volumegroup.ModifyVolumeGroupMembershipResponse{},
		"DeleteVolumeGroup":             &volumegroup.DeleteVolumeGroupResponse{},
		"ControllerGetVolumeGroup":      &volumegroup.ControllerGetVolumeGroupResponse{},
		"ListVolumeGroups":              &volumegroup.ListVolumeGroupsResponse{},
	}[method]
}

// serve serves the driver on a socket until the test ends, and returns the path of the socket.
func (d *fakeDriver) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	d.requests = map[string]proto.Message{}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.answer))
	identity.RegisterIdentityServer(server, identity.UnimplementedIdentityServer{})
	reclaimspace.RegisterReclaimSpaceControllerServer(server,
		reclaimspace.UnimplementedReclaimSpaceControllerServer{})
	reclaimspace.RegisterReclaimSpaceNodeServer(server,
		reclaimspace.UnimplementedReclaimSpaceNodeServer{})
	encryptionkeyrotation.RegisterEncryptionKeyRotationControllerServer(server,
		encryptionkeyrotation.UnimplementedEncryptionKeyRotationControllerServer{})
	fence.RegisterFenceControllerServer(server, fence.UnimplementedFenceControllerServer{})
	replication.RegisterControllerServer(server, replication.UnimplementedControllerServer{})
	volumegroup.RegisterControllerServer(server, volumegroup.UnimplementedControllerServer{})
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	t.Cleanup(server.Stop)
	return socket
}

// last returns the last request of a method.
func (d *fakeDriver) last(method string) proto.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[method]
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
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	config.CurrentContext = "a"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
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
