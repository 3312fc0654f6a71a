package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projectendpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// manilaVersion is the microversion of the requests of this package to Manila.
const manilaVersion = "2.65"

type kind struct {
	service simulator.Service
	program string
	// name and entry are its name and its type in the catalog.
	name, entry string
}

func kinds() []kind {
	return []kind{
		{simulator.Identity, keystone, "keystone", "identity"},
		{simulator.Share, manila, "manilav2", "sharev2"},
		{simulator.Compute, nova, "nova", "compute"},
		{simulator.Volume, cinder, "cinderv3", "volumev3"},
	}
}

type admin struct {
	access   Access
	identity *gophercloud.ServiceClient
	share    *gophercloud.ServiceClient
	provider *gophercloud.ProviderClient
	// shareTypes are the IDs of share types by name, as of the last list.
	shareTypes map[string]string
}

func (a Access) admin(ctx context.Context) (*admin, error) {
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: a.identityURL(), Username: "admin", Password: a.Password,
		DomainName: "Default", TenantName: "admin", AllowReauth: true,
	})
	if err != nil {
		return nil, fmt.Errorf("logging in as admin: %w", err)
	}
	return &admin{
		access: a, provider: provider,
		identity: a.client(provider, keystone, "/v3/"),
		share: &gophercloud.ServiceClient{
			ProviderClient: provider, Endpoint: a.url(manila, "/v2/"), Type: "sharev2",
			Microversion: manilaVersion,
		},
	}, nil
}

func (a Access) identityURL() string { return a.url(keystone, "/v3") }

func (a Access) url(program, path string) string {
	return "http://" + a.Addresses[program] + path
}

func (a Access) client(
	provider *gophercloud.ProviderClient, program, path string,
) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: a.url(program, path)}
}

func (a *admin) project() (string, error) {
	result, ok := a.provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return "", errors.New("the login of the user admin has no result")
	}
	project, err := result.ExtractProject()
	if err != nil {
		return "", fmt.Errorf("reading the project of the user admin: %w", err)
	}
	return project.ID, nil
}

// register completes the catalog: it gives the project admin the endpoint of Keystone, with which
// the services verify tokens, and creates an entry for each of the other services. The endpoints in
// these entries belong to the tests.
func (s *Services) register(ctx context.Context) error {
	a, err := s.access.admin(ctx)
	if err != nil {
		return err
	}
	identity, err := a.registerIdentity(ctx)
	if err != nil {
		return err
	}
	s.access.ServiceIDs = map[string]string{"identity": identity}
	for _, k := range kinds()[1:] {
		created, err := services.Create(ctx, a.identity, services.CreateOpts{
			Type: k.entry, Extra: map[string]any{"name": k.name},
		}).Extract()
		if err != nil {
			return fmt.Errorf("creating the catalog entry %s: %w", k.entry, err)
		}
		s.access.ServiceIDs[k.entry] = created.ID
		if err := s.access.SetZones(ctx, k.service, simulator.Zone{Name: "nova"}); err != nil {
			return err
		}
	}
	s.access.MemberRole, err = a.memberRole(ctx)
	return err
}

// registerIdentity lets the project admin see the endpoints of Keystone that the bootstrap has
// created, and returns the ID of their service.
func (a *admin) registerIdentity(ctx context.Context) (service string, err error) {
	project, err := a.project()
	if err != nil {
		return "", err
	}
	pages, err := endpoints.List(a.identity, endpoints.ListOpts{}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("listing the endpoints: %w", err)
	}
	found, err := endpoints.ExtractEndpoints(pages)
	if err != nil {
		return "", fmt.Errorf("listing the endpoints: %w", err)
	}
	for _, endpoint := range found {
		err := projectendpoints.Create(ctx, a.identity, project, endpoint.ID).Err
		if err != nil {
			return "", fmt.Errorf("adding an endpoint to the project admin: %w", err)
		}
		service = endpoint.ServiceID
	}
	return service, nil
}

func (a *admin) memberRole(ctx context.Context) (string, error) {
	pages, err := roles.List(a.identity, roles.ListOpts{Name: "member"}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("listing the roles: %w", err)
	}
	found, err := roles.ExtractRoles(pages)
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("found %d roles with the name member: %w", len(found), err)
	}
	return found[0].ID, nil
}

// SetZones replaces the availability zones of a service.
func (a Access) SetZones(
	ctx context.Context, service simulator.Service, zones ...simulator.Zone,
) error {
	// An empty list, not null.
	return a.rewrite(ctx, "zones", service, append([]simulator.Zone{}, zones...))
}

// rewrite runs a program that changes the databases of a service.
func (a Access) rewrite(
	ctx context.Context, name string, service simulator.Service, input any,
) error {
	text, err := json.Marshal(input)
	if err != nil {
		return err
	}
	s := settings{Dir: a.Dir}
	arguments := map[simulator.Service][]string{
		simulator.Share:   {manila, s.Database(manila)},
		simulator.Volume:  {cinder, s.Database(cinder)},
		simulator.Compute: {nova, s.Database("nova_api"), s.Database("nova_cell1")},
	}[service]
	arguments = append([]string{s.script(name + ".py")}, arguments...)
	if err := s.python(ctx, name, bytes.NewReader(text), arguments...); err != nil {
		return fmt.Errorf("writing to the databases of service %s: %w", service, err)
	}
	return nil
}
