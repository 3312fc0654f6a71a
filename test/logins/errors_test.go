//go:build integration

package logins_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/golden"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// recorded has the errors that the drivers print. The tests of the parser of errors read it.
const recorded = "../../pkg/kubectl/fault/testdata/drivers.txt"

// TestDriversPrintTheRecordedErrors calls the drivers while OpenStack fails in many ways. With the
// flag -update it records what they print.
func TestDriversPrintTheRecordedErrors(t *testing.T) {
	t.Parallel()
	s := newFailing(t)
	lines := []string{}
	for _, driver := range []string{"cinder", "manila"} {
		client := s.start(t, driver)
		existing := create(t, client, s.secrets())
		for i, fault := range s.faults(driver) {
			for _, id := range []string{unknownID, existing} {
				c := calls(s.secrets(), id, i)
				for _, name := range slices.Sorted(maps.Keys(c)) {
					if fault != nil && skipped(name, id, fault.Method) {
						continue
					}
					text := s.errorOf(t, client, c[name], fault)
					if text = strings.ReplaceAll(text, existing, existingID); text != "" {
						lines = append(lines, driver+": "+name+": "+anonymous(s, text)+"\n")
					}
				}
			}
		}
	}
	slices.Sort(lines)
	golden.Match(t, recorded, "# cinder-csi-plugin and manila-csi-plugin v1.36.0 with the simulator "+
		"of OpenStack. make test-logins TESTFLAGS=-update writes this file.\n"+
		strings.Join(slices.Compact(lines), ""))
}

// skipped returns whether a call would fail as others, or delete the volume that others need.
func skipped(call, id, method string) bool {
	return id == unknownID || strings.Contains(call, "unknown") ||
		call == "delete" && (method == http.MethodGet || method == http.MethodPost)
}

// call sends one request to a driver.
type call func(context.Context, csi.ControllerClient) error

const (
	existingID = "11111111-1111-4111-8111-111111111111"
	unknownID  = "22222222-2222-4222-8222-222222222222"
	serverID   = "33333333-3333-4333-8333-333333333333"
	gib        = 1 << 30
	// theType is the type of volumes in the simulator.
	theType = "__DEFAULT__"
)

func volume(secrets map[string]string, name, kind string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name: name, Secrets: secrets, VolumeCapabilities: []*csi.VolumeCapability{mounted()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
		Parameters:    map[string]string{"type": kind},
	}
}

func mounted() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{
			Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		},
	}
}

// create creates a volume and returns its ID.
func create(t *testing.T, c csi.ControllerClient, secrets map[string]string) string {
	t.Helper()
	created, err := c.CreateVolume(t.Context(), volume(secrets, "pvc-existing", theType))
	assert.NilError(t, err)
	return created.GetVolume().GetVolumeId()
}

// calls are the requests of sidecars about a volume or snapshot. Names of new ones end with a
// number.
func calls(secrets map[string]string, id string, i int) map[string]call {
	return map[string]call{
		"create": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.CreateVolume(ctx, volume(secrets, fmt.Sprintf("pvc-%d", i), theType))
			return err
		},
		"create of an unknown type": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.CreateVolume(ctx, volume(secrets, fmt.Sprintf("pvc-typed-%d", i), "quota"))
			return err
		},
		"create from an unknown snapshot": func(ctx context.Context, c csi.ControllerClient) error {
			request := volume(secrets, fmt.Sprintf("pvc-restored-%d", i), theType)
			request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: unknownID},
			}}
			_, err := c.CreateVolume(ctx, request)
			return err
		},
		"delete": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id, Secrets: secrets})
			return err
		},
		"attach": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
				VolumeId: id, NodeId: serverID, VolumeCapability: mounted(), Secrets: secrets,
			})
			return err
		},
		"attach to an unknown server": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
				VolumeId: id, NodeId: unknownID, VolumeCapability: mounted(), Secrets: secrets,
			})
			return err
		},
		"detach": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
				VolumeId: id, NodeId: serverID, Secrets: secrets,
			})
			return err
		},
		"create a snapshot": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
				Name: fmt.Sprintf("snapshot-%d", i), SourceVolumeId: id, Secrets: secrets,
			})
			return err
		},
		"delete a snapshot": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets})
			return err
		},
		"expand": func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
				VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 401 * gib}, Secrets: secrets,
			})
			return err
		},
	}
}

// failing is a cloud that fails on demand.
type failing struct {
	*simulator.Simulator

	folder string
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{
		SeparatePorts: true, ShareTypes: []simulator.ShareType{{Name: theType}},
	})
	assert.NilError(t, err)
	assert.NilError(t, cloud.Start(t.Context()))
	t.Cleanup(func() { assert.Check(t, cloud.Close()) })
	cloud.AddServer(simulator.Server{ID: serverID, Name: "worker-0"})
	return &failing{cloud, t.TempDir()}
}

// faults are those of the services that a driver uses, and none. Those that let a driver change
// something come last.
func (s *failing) faults(driver string) (faults []*simulator.Fault) {
	services := map[string][]simulator.Service{
		"cinder": {simulator.Volume, simulator.Compute}, "manila": {simulator.Share},
	}[driver]
	for _, service := range services {
		for _, mode := range []simulator.Mode{
			simulator.Unreachable, simulator.Garbage, simulator.Truncated,
		} {
			faults = append(faults, &simulator.Fault{Service: service, Mode: mode})
		}
		objects := "/" + string(service) + map[simulator.Service]string{simulator.Share: "/v2/s"}[service]
		for _, code := range []int{403, 404, 500} {
			faults = append(faults, &simulator.Fault{
				Service: service, Mode: simulator.Status, Status: code, Method: http.MethodGet,
				PathPrefix: objects,
			})
		}
		for _, body := range bodies() {
			faults = append(faults, &simulator.Fault{
				Service: service, Mode: simulator.Foreign, Method: http.MethodPost, Answer: &body,
			})
		}
		faults = append(faults, &simulator.Fault{
			Service: service, Mode: simulator.Status, Status: 409, Method: http.MethodDelete,
		})
	}
	return append(faults, nil)
}

// bodies are answers to requests that create or change something.
func bodies() []simulator.Answer {
	return []simulator.Answer{
		{Status: 400, Body: `{"badRequest": {"code": 400, "message": "Invalid input received: Invalid ` +
			`volume: Volume ` + existingID + ` status must be available or downloading to reserve, but ` +
			`the current status is in-use. (HTTP 400) (Request-ID: req-` + unknownID + `)"}}`},
		{Status: 409, Body: `{"conflictingRequest": {"code": 409, "message": "Cannot 'attach_volume' ` +
			`instance ` + serverID + ` while it is in vm_state error"}}`},
		{Status: 413, Body: `{"overLimit": {"code": 413, "message": "VolumeSizeExceedsAvailableQuota: ` +
			`Requested volume or snapshot exceeds allowed gigabytes quota. Requested 1G, quota is 10G ` +
			`and 10G has been consumed.", "retryAfter": "0"}}`},
		{Status: 413, Body: `{"overLimitFault": {"code": 413, "message": "This request was ` +
			`rate-limited.", "retryAfter": "36", "details": "Only 10 POST request(s) can be made to * ` +
			`every minute."}}`},
		{Status: 429, Body: `{"message": "API rate limit exceeded"}`},
		{Status: 503, Body: "<html><body><h1>503 Service Unavailable</h1>\nNo server is available " +
			"to handle this request.\n</body></html>"},
	}
}

// start starts a driver with the folder as its own, and connects to it.
func (s *failing) start(t *testing.T, driver string) csi.ControllerClient {
	t.Helper()
	clouds, config := filepath.Join(s.folder, "clouds.yaml"), filepath.Join(s.folder, "cloud.conf")
	assert.NilError(t, os.WriteFile(clouds, s.CloudsYAML(simulator.Clouds{}), 0o600))
	assert.NilError(t, os.WriteFile(config, []byte("[Global]\nuse-clouds = true\n"+
		"clouds-file = "+clouds+"\ncloud = openstack\n"), 0o600))
	socket := filepath.Join(s.folder, driver+".sock")
	arguments := map[string][]string{
		"cinder": {"--cloud-config=" + config},
		"manila": {"--share-protocol-selector=NFS", "--fwdendpoint=unix:///nowhere/csi.sock"},
	}[driver]
	cmd := exec.CommandContext(t.Context(),
		filepath.Join(os.Getenv("BIN_DIR"), "logins", driver+"-csi-plugin"),
		append(arguments, "--endpoint=unix://"+socket, "--provide-node-service=false")...)
	cmd.Stderr = os.Stderr
	assert.NilError(t, cmd.Start(), "make test-logins builds the program")
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context kills it
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return csi.NewControllerClient(conn)
}

// secrets are those of the StorageClasses of Manila. Cinder's driver ignores them.
func (s *failing) secrets() map[string]string {
	c := s.Credentials()
	return map[string]string{
		"os-authURL": s.Info().AuthURL, "os-userName": c.UserName, "os-password": c.Password,
		"os-projectName": c.ProjectName, "os-domainName": c.DomainName, "os-region": "RegionOne",
	}
}

// errorOf returns the error of a call, "" if it succeeds or does not end.
func (s *failing) errorOf(
	t *testing.T, client csi.ControllerClient, call call, fault *simulator.Fault,
) string {
	t.Helper()
	if fault != nil {
		set, err := s.SetFault(*fault)
		assert.NilError(t, err)
		defer func() { assert.Check(t, s.ClearFaults(set.ID)) }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := call(ctx, client); err != nil && ctx.Err() == nil {
		return err.Error()
	}
	return ""
}

// anonymous replaces what differs in each run.
func anonymous(s *failing, text string) string {
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:5000")
	text = regexp.MustCompile(`req-[0-9a-f-]{36}`).ReplaceAllString(text, "req-"+unknownID)
	text = regexp.MustCompile(`shares/[0-9a-f-]{36}`).ReplaceAllString(text, "shares/"+existingID)
	text = regexp.MustCompile(`\b(pvc|snapshot)(-[a-z]+)?-\d+`).ReplaceAllString(text, "$1$2-new")
	text = strings.ReplaceAll(text, s.Credentials().ProjectID, "44444444444444444444444444444444")
	return strings.ReplaceAll(text, "\n", `\n`)
}
