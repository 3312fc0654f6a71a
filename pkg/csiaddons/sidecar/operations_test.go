package sidecar

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/openstack/port"
)

func persistentVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:  []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			MountOptions: []string{"noatime"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: "volume-1", FSType: "ext4",
				VolumeAttributes:   map[string]string{"zone": "a"},
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "csi", Name: "cloud"},
			}},
		},
	}
}

func cloudSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "cloud"},
		Data:       map[string][]byte{"user": []byte("hidden")},
	}
}

func TestNodeReclaimsSpaceOfTheStagedVolume(t *testing.T) {
	t.Parallel()
	block := persistentVolume()
	block.Name, block.Spec.VolumeMode = "block", ptr.To(corev1.PersistentVolumeBlock)
	block.Spec.AccessModes = append(block.Spec.AccessModes, corev1.ReadWriteMany)
	block.Spec.CSI.NodeStageSecretRef = nil
	// The name of the folder is the SHA-256 of volume-1.
	const ofBlock, ofFiles = "/staging/volumeDevices/staging/block", "/staging/" + driverName +
		"/d134c5a3656b7cd8339ec605c01ab63fed6fcaca8cb3067abde8a02c5bfacdc0/globalmount"
	f := newFixture(t, block)
	f.run("--stagingpath=/staging")
	for volume, want := range map[string]*reclaimspace.NodeReclaimSpaceRequest{
		"data": {
			VolumePath: ofFiles, StagingTargetPath: ofFiles, Secrets: map[string]string{"user": "hidden"},
			VolumeCapability: &csi.VolumeCapability{
				AccessMode: &csi.VolumeCapability_AccessMode{
					Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
				},
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
					FsType: "ext4", MountFlags: []string{"noatime"},
				}},
			},
		},
		"block": {
			VolumePath: ofBlock, StagingTargetPath: ofBlock,
			VolumeCapability: &csi.VolumeCapability{
				AccessMode: &csi.VolumeCapability_AccessMode{
					Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
				},
				AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			},
		},
	} {
		answer, err := f.reclaimOnNode(volume)
		assert.NilError(t, err)
		assert.Check(t, is.Equal(answer.GetPreUsage().GetUsageBytes(), int64(200)))
		want.VolumeId = "volume-1"
		f.checkRequest("NodeReclaimSpace", want)
	}
}

func TestErrorsOfTheDriverReachTheController(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	err := f.awaitTerm()
	assert.Check(t, status.Code(err) == codes.Unimplemented &&
		status.Convert(err).Message() == "the cloud cannot discard", "the call returns %v", err)
	f.checkRequest("ControllerReclaimSpace", &reclaimspace.ControllerReclaimSpaceRequest{
		VolumeId: "volume-1", Parameters: map[string]string{"zone": "a"},
		Secrets: map[string]string{"user": "hidden"},
	})
}

func TestOnlyVolumesOfTheDriverReachIt(t *testing.T) {
	t.Parallel()
	foreign, local, noSecret := persistentVolume(), persistentVolume(), persistentVolume()
	foreign.Name, foreign.Spec.CSI.Driver = "foreign", "other"
	local.Name, local.Spec.CSI = "local", nil
	noSecret.Name, noSecret.Spec.CSI.NodeStageSecretRef.Name = "no-secret", "none"
	f := newFixture(t, foreign, local, noSecret)
	f.kube.PrependReactor("get", "persistentvolumes",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			unreadable := action.(clienttesting.GetAction).GetName() == "unreadable"
			return unreadable, nil, errors.New("no answer")
		})
	f.run()
	for name, want := range map[string]codes.Code{
		"foreign": codes.InvalidArgument, "local": codes.InvalidArgument, "": codes.InvalidArgument,
		"../x": codes.InvalidArgument, "nothing": codes.NotFound, "unreadable": codes.Unavailable,
		"no-secret": codes.NotFound,
	} {
		_, err := f.reclaimOnNode(name)
		assert.Check(t, is.Equal(status.Code(err), want), "volume %q: %v", name, err)
	}
	assert.Check(t, is.Nil(f.driver.Last("NodeReclaimSpace")))
}

func TestFencePassesClientsAndAValidSecretOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	_ = f.awaitTerm()
	connection := f.connectPinned()
	for name, invalid := range map[string]*wire.NetworkFenceRequest{
		"name alone":      {SecretName: "cloud"},
		"namespace alone": {SecretNamespace: "csi"},
		"path":            {SecretName: "../cloud", SecretNamespace: "csi"},
	} {
		_, err := wire.FenceClusterNetwork.Call(f.with(controllerToken), connection, invalid)
		assert.Check(t, status.Code(err) == codes.InvalidArgument &&
			f.driver.Last("FenceClusterNetwork") == nil, "%s: the call returns %v", name, err)
	}
	request := &wire.NetworkFenceRequest{
		Parameters: map[string]string{"zone": "a"}, SecretName: "cloud", SecretNamespace: "csi",
		Cidrs: []string{"10.0.0.1/32", "fd00::/64"},
	}
	var trailer metadata.MD
	_, err := wire.FenceClusterNetwork.Call(f.with(controllerToken), connection, request,
		grpc.Trailer(&trailer))
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual([]string{"3"}, trailer.Get(wire.ChangedSharesTrailer)))
	_, err = wire.UnFenceClusterNetwork.Call(f.with(controllerToken), connection, request)
	assert.Check(t, err)
	cidrs := []*fence.CIDR{{Cidr: "10.0.0.1/32"}, {Cidr: "fd00::/64"}}
	secrets := map[string]string{"user": "hidden"}
	f.checkRequest("FenceClusterNetwork", &fence.FenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs,
	})
	f.checkRequest("UnfenceClusterNetwork", &fence.UnfenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs,
	})
}

// A NetworkFenceClass need not name a Secret.
func TestFenceClientsNeedNoSecretAndNoLeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, heldBy("pod-b"))
	f.run()
	answer, err := wire.GetFenceClients.Call(f.with(controllerToken), f.connectPinned(),
		&wire.FenceClientsRequest{Parameters: map[string]string{"zone": "a"}})
	assert.NilError(t, err)
	want := &wire.FenceClientsResponse{Clients: []*wire.ClientDetails{
		{Id: "worker-1", Cidrs: []string{"10.0.0.1/32"}},
	}}
	assert.Check(t, is.DeepEqual(want, answer, protocmp.Transform()), "answer")
	assert.Check(t, is.Equal(f.requests("get", "secrets"), 0))
}

func TestMetricsCountOperationsAndConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	f.awaitHolder("pod-a")
	connection := f.connectPinned()
	for token, accepted := range map[string]bool{controllerToken: true, "of-nobody": false} {
		_, err := wire.NodeReclaimSpace.Call(f.with(token), connection,
			&wire.ReclaimSpaceRequest{PvName: "data"})
		assert.Check(t, (err == nil) == accepted, "with the token %q the call returns %v", token, err)
	}
	for _, open := range []float64{1, 0} {
		want := map[string]float64{
			"announced": 1, "connections": open, "leader": 1,
			"operations_total OK NodeReclaimSpace":        1,
			"operation_duration_seconds NodeReclaimSpace": 1,
			"refused_calls_total":                         1,
			"announcement_writes_total success":           1,
		}
		eventually(t, "the metrics are correct", func(context.Context) bool {
			got := values(t, f.registry)
			// The announcer may write again when the watch starts.
			got["announcement_writes_total success"] = min(1, got["announcement_writes_total success"])
			return cmp.Equal(want, got)
		})
		connection.Close()
	}
}

// values returns the values of counters and gauges, and the counts of histograms, by the name
// without the prefix and the values of the labels.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	assert.NilError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := strings.TrimPrefix(family.GetName(), "csi_addons_sidecar_")
			for _, label := range metric.GetLabel() {
				key += " " + label.GetValue()
			}
			found[key] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

func TestHTTPEndpointServesMetricsAndHealth(t *testing.T) {
	t.Parallel()
	reserved, err := port.Reserve("127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = reserved.Release() })
	address := "127.0.0.1:" + strconv.Itoa(reserved.Port())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveMetrics(ctx, address) }()
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": "ok"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path,
			http.NoBody)
		assert.NilError(t, err)
		eventually(t, path+" answers", func(context.Context) bool {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			return err == nil && strings.Contains(string(content), want)
		})
	}
	err = serveMetrics(t.Context(), address)
	assert.Check(t, is.ErrorContains(err, "--http-endpoint"), "for an address in use")
	cancel()
	assert.Check(t, <-ended, "the end of the endpoint")
}
