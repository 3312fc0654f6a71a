// Package testcloud creates the OpenStack of a test: the simulator, or the real services behind the
// listeners of the simulator if package services runs them. The devcluster and all tests that can
// run against both call it.
package testcloud

import (
	"context"
	"os"

	"github.com/openstack-csi/csi-operator/test/openstack/services"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Cloud is an OpenStack with one user in one project, which a test can change while it runs. The
// methods are those of simulator.Simulator, which describes them.
type Cloud interface {
	Start(ctx context.Context) error
	Close() error

	Info() simulator.Info
	CA() []byte
	CloudsYAML(options simulator.Clouds) []byte

	Credentials() simulator.Credentials
	RotateCredentials(rotation simulator.Rotation)
	IssuedTokens() []string
	RevokeTokens() int
	ExpireTokens(ctx context.Context) error

	RemoveFromCatalog(serviceType string)
	RestoreToCatalog(serviceType string)

	ShareTypes() []simulator.ShareType
	AddShareType(added simulator.ShareType) error
	RemoveShareType(name string) error
	ReverseShareTypes()

	Zones(service simulator.Service) []simulator.Zone
	SetZones(service simulator.Service, zones ...simulator.Zone) error

	SetQuotas(service simulator.Service, limits ...simulator.Quota) error

	SetStatus(service simulator.Service, id, status string, reasons ...simulator.Reason) error

	Faults() []simulator.Fault
	SetFault(fault simulator.Fault) (simulator.Fault, error)
	ClearFaults(ids ...string) error

	Log() []simulator.Request
	Counters() simulator.Counters
	ResetLog()
	WaitRequest(
		ctx context.Context, match func(simulator.Request) bool,
	) (simulator.Request, error)
}

// New returns a cloud that does not listen yet: the real services if the environment names a file
// with the access to them, the simulator otherwise.
func New(config simulator.Config) (Cloud, error) {
	file := os.Getenv(services.AccessVariable)
	if file == "" {
		return simulator.New(config)
	}
	access, err := services.LoadAccess(file)
	if err != nil {
		return nil, err
	}
	return services.NewCloud(access, config), nil
}
