package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/openstack-csi/csi-operator/test/fakedriver"
)

// execute runs the command against a driver, and returns the exit code, the output and the errors.
func execute(t *testing.T, d *fakedriver.Driver, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code := Main(t.Context(), append([]string{
		"--endpoint=unix://" + d.Socket, "--kubeconfig=" + serveCluster(t),
	}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestOperationsSendTheFlagsToTheDriver(t *testing.T) {
	t.Parallel()
	const (
		volume, content = " --persistentvolume=data", " --volumegroupreplicationcontent=content"
		cidrs, zone     = " --cidrs=10.0.0.1/32,fd00::/64", " --parameters=zone=a"
		ofCloud, staged = " --secret=csi/cloud", " --stagingpath=/staging"
		inGroup         = " --volumegroupid=group-1"

		id           = `"volumeId": "volume-1"`
		fenced       = `"cidrs": [{"cidr": "10.0.0.1/32"}, {"cidr": "fd00::/64"}]`
		stage, cloud = `, "secrets": {"of": "stage"}`, `"secrets": {"of": "cloud"}`
		one          = `"replicationSource": {"volume": {"volumeId": "volume-1"}}`
		group        = `"replicationSource": {"volumegroup": {"volumeGroupId": "group-1"}}`
		ofGroup      = `"volumeGroupId": "group-1"`
		used         = `, "volumeCapability": {"accessMode": {}, "mount": {}}`
		parameters   = `"parameters": {"zone": "a"}`
		// The SHA-256 of volume-1 is the name of a folder.
		path = `Path": "/staging/` + driverName +
			`/d134c5a3656b7cd8339ec605c01ab63fed6fcaca8cb3067abde8a02c5bfacdc0/globalmount"`
	)
	for args, want := range map[string]string{ // the method and its request
		"GetIdentity": `GetIdentity {}`, "GetCapabilities": `GetCapabilities {}`, "Probe": `Probe {}`,
		"ControllerReclaimSpace" + volume: `ControllerReclaimSpace {` + id + stage + `}`,
		"NodeReclaimSpace" + staged + volume: `NodeReclaimSpace {` + id + stage + used + `, "volume` +
			path + `, "stagingTarget` + path + `}`,
		"EncryptionKeyRotation" + staged + volume + ofCloud: `EncryptionKeyRotate {` + id + used +
			`, "volume` + path + `, ` + cloud + `}`,
		"NetworkFence --clusterid=c" + cidrs + ofCloud: `FenceClusterNetwork {` + fenced + `, ` + cloud +
			`, "parameters": {"clusterID": "c"}}`,
		"NetworkUnFence" + cidrs + zone: `UnfenceClusterNetwork {` + fenced + `, ` + parameters + `}`,
		"GetFenceClients" + zone:        `GetFenceClients {` + parameters + `}`,
		"ListClusterFence" + ofCloud:    `ListClusterFence {` + cloud + `}`,
		"EnableVolumeReplication" + volume + zone: `EnableVolumeReplication {` + one + stage + `, ` +
			parameters + `}`,
		"DisableVolumeReplication" + content: `DisableVolumeReplication {` + group + `}`,
		"PromoteVolume --force --legacy" + volume: `PromoteVolume {` + one + stage + `, "force": true, ` +
			id + `}`,
		"DemoteVolume" + inGroup + ofCloud:        `DemoteVolume {` + group + `, ` + cloud + `}`,
		"ResyncVolume" + volume:                   `ResyncVolume {` + one + stage + `}`,
		"GetVolumeReplicationInfo" + volume:       `GetVolumeReplicationInfo {` + one + stage + `}`,
		"GetReplicationDestinationInfo" + content: `GetReplicationDestinationInfo {` + group + `}`,
		"CreateVolumeGroup --volumegroupname=g --volumeids=1,2": `CreateVolumeGroup {"name": "g", ` +
			`"volumeIds": ["1", "2"]}`,
		"ModifyVolumeGroupMembership --volumeids=1" + content: `ModifyVolumeGroupMembership {` + ofGroup +
			`, "volumeIds": ["1"]}`,
		"DeleteVolumeGroup" + inGroup:        `DeleteVolumeGroup {` + ofGroup + `}`,
		"ControllerGetVolumeGroup" + content: `ControllerGetVolumeGroup {` + ofGroup + `}`,
		"ListVolumeGroups" + ofCloud:         `ListVolumeGroups {` + cloud + `}`,
	} {
		d := fakedriver.Serve(t, answers(nil).answer)
		code, _, stderr := execute(t, d, strings.Fields("--operation="+args)...)
		method, request, _ := strings.Cut(want, " ")
		got := d.Last(method)
		assert.Assert(t, code == exitOK && got != nil, "%s: exit code %d: %s", args, code, stderr)
		wanted := got.ProtoReflect().New().Interface()
		assert.NilError(t, protojson.Unmarshal([]byte(request), wanted))
		assert.Check(t, is.DeepEqual(wanted, got, protocmp.Transform()), "%s: request", args)
	}
}

// The tool of the CSI-Addons for Ceph documents flags with one hyphen.
func TestLongFlagsMayHaveOneHyphen(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers(nil).answer)
	for _, args := range []string{
		"-operation=Probe", "-operation Probe -o json", "--operation=Probe -timeout=1m",
		"-operation=Probe -ojson",
	} {
		code, _, stderr := execute(t, d, strings.Fields(args)...)
		assert.Check(t, is.Equal(code, exitOK), "%s: %s", args, stderr)
	}
	code, _, _ := execute(t, d, "-operations=Probe")
	assert.Check(t, is.Equal(code, exitUsage), "an unknown flag")
}

func TestAnswerIsPrintedAsTableOrJSON(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers{"GetFenceClients": &fence.GetFenceClientsResponse{
		Clients: []*fence.ClientDetails{
			{Id: "worker-\x1b[31m1", Addresses: []*fence.CIDR{{Cidr: "10.0.0.1/32"}}},
			{Id: "worker-2"},
		},
	}}.answer)
	for output, want := range map[string]string{
		"table": "FIELD                         VALUE\n" +
			"clients[0].addresses[0].cidr  10.0.0.1/32\n" +
			"clients[0].id                 worker- [31m1\n" +
			"clients[1].id                 worker-2\n",
		"json": "{\n  \"clients\": [\n    {\n      \"addresses\": [\n        {\n" +
			"          \"cidr\": \"10.0.0.1/32\"\n        }\n      ],\n" +
			"      \"id\": \"worker-\\u001b[31m1\"\n    },\n    {\n      \"id\": \"worker-2\"\n" +
			"    }\n  ]\n}\n",
	} {
		code, stdout, stderr := execute(t, d,
			"--operation=GetFenceClients", "-o", output)
		assert.Check(t, code == exitOK, "exit code %d: %s", code, stderr)
		assert.Check(t, is.DeepEqual(want, stdout), "output")
	}
}

func TestExitCodeSaysWhatFailed(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers{
		"GetCapabilities":  status.Error(codes.Unimplemented, "no capabilities"),
		"GetIdentity":      status.Error(codes.Internal, "broken"),
		"Probe":            &identity.ProbeResponse{Ready: wrapperspb.Bool(false)},
		"ListClusterFence": never,
	}.answer)
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"--operation=GetCapabilities":                    {exitUnsupported, "no capabilities"},
		"--operation=GetIdentity":                        {exitFailed, "Internal: broken"},
		"--operation=Probe":                              {exitFailed, "the driver is not ready"},
		"--operation=ListClusterFence --timeout=100ms":   {exitDeadline, "DeadlineExceeded"},
		"--operation=Probe --endpoint=/missing":          {exitUnreachable, "/missing"},
		"--operation=Probe --endpoint=tcp://a":           {exitUsage, "absolute path"},
		"":                                               {exitUsage, "use one of"},
		"--operation=Probe --output=yaml":                {exitUsage, "use table or json"},
		"--operation=Probe --timeout=0s":                 {exitUsage, "use a positive duration"},
		"--operation=Probe --unknown":                    {exitUsage, "unknown flag"},
		"--operation=Probe more":                         {exitUsage, `unexpected argument "more"`},
		"--operation=NetworkFence":                       {exitUsage, "needs --cidrs"},
		"--operation=NetworkFence --cidrs=10.0.0.1":      {exitUsage, `"10.0.0.1" is not a CIDR`},
		"--operation=NodeReclaimSpace":                   {exitUsage, "needs --persistentvolume"},
		"--operation=PromoteVolume":                      {exitUsage, "needs a volume group"},
		"--operation=CreateVolumeGroup":                  {exitUsage, "needs --volumegroupname"},
		"--operation=ListVolumeGroups --secret=cloud":    {exitUsage, "use namespace/name"},
		"--operation=ListVolumeGroups --secret=csi/none": {exitFailed, "not found"},
		"--operation=ControllerReclaimSpace --persistentvolume=none --drivername=a": {
			exitFailed, "reading PersistentVolume none",
		},
		"--operation=ControllerReclaimSpace --persistentvolume=data --drivername=a": {
			exitFailed, "not to the driver a",
		},
		"--operation=DeleteVolumeGroup --volumegroupreplicationcontent=none": {
			exitFailed, "reading VolumeGroupReplicationContent none",
		},
		"--operation=DemoteVolume --persistentvolume=data --volumegroupid=1": {exitUsage, "either"},
	} {
		code, stdout, stderr := execute(t, d, strings.Fields(args)...)
		assert.Check(t, code == want.code && strings.Contains(stderr, want.text) && stdout == "",
			"%s: exit code %d, want %d; error %q, want %q; output %q", args, code, want.code, stderr,
			want.text, stdout)
	}
}

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

func secret(name string) corev1.Secret {
	return corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: name},
		Data:       map[string][]byte{"of": []byte(name)},
	}
}
