//go:build openstack

package comparison

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/openstack/services"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// A difference that is not in testdata/differences.yaml is an error, and so is an entry of the file
// that is not a difference any more.
func TestSimulatorAnswersAsTheServices(t *testing.T) {
	t.Parallel()
	var requests []Request
	read(t, "testdata/requests.yaml", &requests)
	var known []Known
	read(t, "testdata/differences.yaml", &known)
	config := simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}}, OperationTime: time.Hour,
		Credentials: simulator.Credentials{UserName: "comparer", ProjectName: "comparison"},
	}
	simulated, err := simulator.New(config)
	check(t, err)
	access, err := services.LoadAccess(os.Getenv(services.AccessVariable))
	check(t, err)
	left, right := connect(t, simulated), connect(t, services.NewCloud(access, config))
	var found []Difference
	fields := 0
	for _, request := range requests {
		simulatorFields, err := left.Send(t.Context(), request)
		if err != nil {
			t.Errorf("simulator: %v", err)
			continue
		}
		servicesFields, err := right.Send(t.Context(), request)
		if err != nil {
			t.Errorf("services: %v", err)
			continue
		}
		fields += len(servicesFields)
		found = append(found, Compare(request.Name, simulatorFields, servicesFields)...)
	}
	for _, d := range found {
		t.Log(d) // all of them, for those who update the list
	}
	t.Logf("%d requests, %d fields of the services, %d differences", len(requests), fields, len(found))
	unknown, stale := Judge(found, known)
	for _, d := range unknown {
		t.Error(d)
	}
	for _, k := range stale {
		t.Errorf("%s: %s does not differ any more: remove it from differences.yaml", k.Request, k.Field)
	}
}

// connect starts a cloud and returns a client of it.
func connect(t *testing.T, cloud testcloud.Cloud) *Client {
	t.Helper()
	check(t, cloud.Start(t.Context()))
	t.Cleanup(func() { check(t, cloud.Close()) })
	return NewClient(cloud)
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, yaml.UnmarshalStrict(text, into))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
