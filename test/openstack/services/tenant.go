package services

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projectendpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// The requests of this file create what belongs to one Cloud.

// domain is the ID of the domain of all users and projects.
const domain = "default"

// createUser creates a project and a user that is a member of it. It returns the credentials with
// the IDs of both and with unique names.
func (a *admin) createUser(
	ctx context.Context, wanted simulator.Credentials,
) (simulator.Credentials, error) {
	suffix := "-" + rand.Text()
	wanted.DomainID, wanted.DomainName = domain, "Default"
	wanted.UserName = cmp.Or(wanted.UserName, "openshift") + suffix
	wanted.ProjectName = cmp.Or(wanted.ProjectName, "openshift") + suffix
	wanted.Password = cmp.Or(wanted.Password, newSecret())
	project, err := projects.Create(ctx, a.identity, projects.CreateOpts{
		Name: wanted.ProjectName, DomainID: domain,
	}).Extract()
	if err != nil {
		return wanted, fmt.Errorf("creating a project: %w", err)
	}
	user, err := users.Create(ctx, a.identity, users.CreateOpts{
		Name: wanted.UserName, DomainID: domain, Password: wanted.Password,
	}).Extract()
	if err != nil {
		return wanted, fmt.Errorf("creating a user: %w", err)
	}
	wanted.ProjectID, wanted.UserID = project.ID, user.ID
	err = roles.Assign(ctx, a.identity, a.access.MemberRole, roles.AssignOpts{
		UserID: user.ID, ProjectID: project.ID,
	}).ExtractErr()
	if err != nil {
		return wanted, fmt.Errorf("making the user a member of the project: %w", err)
	}
	return wanted, nil
}

func (a *admin) setPassword(ctx context.Context, user, password string) error {
	return users.Update(ctx, a.identity, user, users.UpdateOpts{Password: password}).Err
}

// revoke returns false if the token is not valid.
func (a *admin) revoke(ctx context.Context, token string) (bool, error) {
	err := tokens.Revoke(ctx, a.identity, token).Err
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// setQuotas sets limits of a project, of a user in it, or of share types.
func (a *admin) setQuotas(
	ctx context.Context, service simulator.Service, owner simulator.Credentials,
	limits []simulator.Quota,
) error {
	project, err := a.project()
	if err != nil {
		return err
	}
	client, path := a.access.client(a.provider, cinder, "/v3/"+project+"/"), "os-quota-sets/"
	if service == simulator.Share {
		client, path = a.share, "quota-sets/"
	}
	for _, l := range limits {
		target := client.ServiceURL(path+owner.ProjectID) + "?"
		if l.User {
			target += "user_id=" + owner.UserID
		}
		if l.ShareType != "" {
			target += "share_type=" + url.QueryEscape(l.ShareType)
		}
		body := map[string]any{"quota_set": map[string]any{l.Resource: l.Limit}}
		answer, err := client.Put(ctx, target, body, nil, &gophercloud.RequestOpts{
			OkCodes: []int{http.StatusOK}, KeepResponseBody: true,
		})
		if err != nil {
			return fmt.Errorf("setting quota %s: %w", l.Resource, err)
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
	}
	return nil
}

// asUser logs in as the user. Only the user itself may change its application credentials.
func (a Access) asUser(
	ctx context.Context, user simulator.Credentials,
) (*gophercloud.ServiceClient, error) {
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: a.identityURL(), UserID: user.UserID, Password: user.Password,
		TenantID: user.ProjectID,
	})
	if err != nil {
		return nil, fmt.Errorf("logging in as the user of the test: %w", err)
	}
	return a.client(provider, keystone, "/v3/"), nil
}

// createApplicationCredential creates an application credential with name, secret and expiry of the
// credentials, and returns its ID.
func (a Access) createApplicationCredential(
	ctx context.Context, user simulator.Credentials,
) (id string, err error) {
	client, err := a.asUser(ctx, user)
	if err != nil {
		return "", err
	}
	options := applicationcredentials.CreateOpts{
		Name: user.ApplicationCredentialName, Secret: user.ApplicationCredentialSecret,
	}
	if expiry := user.ApplicationCredentialExpiry.UTC(); !expiry.IsZero() {
		options.ExpiresAt = &expiry
	}
	created, err := applicationcredentials.Create(ctx, client, user.UserID, options).Extract()
	if err != nil {
		return "", err
	}
	return created.ID, nil
}

func (a Access) deleteApplicationCredential(
	ctx context.Context, user simulator.Credentials,
) error {
	client, err := a.asUser(ctx, user)
	if err != nil {
		return err
	}
	return applicationcredentials.Delete(ctx, client, user.UserID,
		user.ApplicationCredentialID).ExtractErr()
}

// createRegion creates a region unless it exists.
func (a *admin) createRegion(ctx context.Context, name string) error {
	if name == simulator.DefaultRegion {
		return nil // the bootstrap has created it
	}
	err := regions.Create(ctx, a.identity, regions.CreateOpts{ID: name}).Err
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return fmt.Errorf("creating region %s: %w", name, err)
	}
	return nil
}

func (a *admin) createEndpoint(
	ctx context.Context, region string, k kind, address string,
) (id string, err error) {
	created, err := endpoints.Create(ctx, a.identity, endpoints.CreateOpts{
		Availability: gophercloud.AvailabilityPublic, Region: region, URL: address,
		ServiceID: a.access.ServiceIDs[k.entry],
	}).Extract()
	if err != nil {
		return "", fmt.Errorf("creating the endpoint %s: %w", address, err)
	}
	return created.ID, nil
}

// deleteEndpoint removes an endpoint. Keystone reads every endpoint for each login.
func (a *admin) deleteEndpoint(ctx context.Context, id string) error {
	return endpoints.Delete(ctx, a.identity, id).ExtractErr()
}

// listEndpoint adds an endpoint to the catalog of a project, or removes it.
func (a *admin) listEndpoint(ctx context.Context, project, endpoint string, listed bool) error {
	if listed {
		return projectendpoints.Create(ctx, a.identity, project, endpoint).Err
	}
	return projectendpoints.Delete(ctx, a.identity, project, endpoint).ExtractErr()
}

// shareTypeOptions is the body of a request for a share type that only some projects may use.
// sharetypes.CreateOpts refuses drivers that do not handle share servers.
type shareTypeOptions struct{ added simulator.ShareType }

// ToShareTypeCreateMap returns the body.
func (o shareTypeOptions) ToShareTypeCreateMap() (map[string]any, error) {
	servers := "False"
	if o.added.ShareServers {
		servers = "True"
	}
	return map[string]any{"share_type": map[string]any{
		"name": o.added.Name, "share_type_access:is_public": false,
		"extra_specs": map[string]any{
			"driver_handles_share_servers": servers, "snapshot_support": "True",
			"create_share_from_snapshot_support": "True",
		},
	}}, nil
}

// addShareType creates a share type unless it exists. The project may use it unless it is private.
func (a *admin) addShareType(
	ctx context.Context, added simulator.ShareType, project string,
) error {
	id, found, err := a.shareType(ctx, added.Name)
	if err != nil {
		return err
	}
	if !found {
		created, err := sharetypes.Create(ctx, a.share, shareTypeOptions{added}).Extract()
		if err != nil {
			return fmt.Errorf("creating share type %q: %w", added.Name, err)
		}
		id = created.ID
	}
	if added.Private {
		return nil
	}
	return sharetypes.AddAccess(ctx, a.share, id, sharetypes.AccessOpts{Project: project}).ExtractErr()
}

func (a *admin) removeShareType(ctx context.Context, name, project string) error {
	id, _, err := a.shareType(ctx, name)
	if err != nil {
		return err
	}
	return sharetypes.RemoveAccess(ctx, a.share, id,
		sharetypes.AccessOpts{Project: project}).ExtractErr()
}

// shareType returns the ID of a share type. Share types are never deleted.
func (a *admin) shareType(ctx context.Context, name string) (id string, found bool, err error) {
	if id, found = a.shareTypes[name]; found {
		return id, true, nil
	}
	pages, err := sharetypes.List(a.share, sharetypes.ListOpts{IsPublic: "all"}).AllPages(ctx)
	if err != nil {
		return "", false, fmt.Errorf("listing share types: %w", err)
	}
	types, err := sharetypes.ExtractShareTypes(pages)
	if err != nil {
		return "", false, fmt.Errorf("listing share types: %w", err)
	}
	a.shareTypes = map[string]string{}
	for _, t := range types {
		a.shareTypes[t.Name] = t.ID
	}
	id, found = a.shareTypes[name]
	return id, found, nil
}
