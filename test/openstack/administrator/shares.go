// Package administrator changes a cloud as an administrator does with the command openstack. Tests
// of shares call it.
package administrator

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// ruleVersion is the microversion of Manila that lists access rules with their metadata.
	ruleVersion = "2.45"
	// interval is the time between two requests that wait for Manila, and patience bounds each wait.
	interval = 10 * time.Millisecond
	patience = time.Minute
)

// Shares returns a client of Manila for the entry "openstack" of a clouds.yaml.
func Shares(ctx context.Context, cloudsYAML []byte) (*gophercloud.ServiceClient, error) {
	client, err := connect(ctx, cloudsYAML, openstack.NewSharedFileSystemV2)
	if err == nil {
		client.Microversion = ruleVersion
	}
	return client, err
}

// CreateVolume creates a volume with a name, and returns its ID when it is available.
func CreateVolume(ctx context.Context, cloudsYAML []byte, name string) (id string, err error) {
	client, err := connect(ctx, cloudsYAML, openstack.NewBlockStorageV3)
	if err != nil {
		return "", err
	}
	created, err := volumes.Create(ctx, client, volumes.CreateOpts{Size: 1, Name: name}, nil).Extract()
	if err != nil {
		return "", err
	}
	return created.ID, wait.PollUntilContextTimeout(ctx, interval, patience, true,
		func(ctx context.Context) (bool, error) {
			found, err := volumes.Get(ctx, client, created.ID).Extract()
			return err == nil && found.Status == "available", err
		})
}

// connect returns a client of a service.
func connect(ctx context.Context, cloudsYAML []byte, create func(
	*gophercloud.ProviderClient, gophercloud.EndpointOpts,
) (*gophercloud.ServiceClient, error),
) (*gophercloud.ServiceClient, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName("openstack"),
		clouds.WithCloudsYAML(bytes.NewReader(cloudsYAML)))
	if err != nil {
		return nil, err
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	return create(provider, endpoint)
}

// CreateShare creates a share, and returns its ID when it is available.
func CreateShare(ctx context.Context, client *gophercloud.ServiceClient, options shares.CreateOpts,
) (id string, err error) {
	created, err := shares.Create(ctx, client, options).Extract()
	if err != nil {
		return "", err
	}
	return created.ID, wait.PollUntilContextTimeout(ctx, interval, patience, true,
		func(ctx context.Context) (bool, error) {
			found, err := shares.Get(ctx, client, created.ID).Extract()
			return err == nil && found.Status == "available", err
		})
}

// Allow adds an access rule of a type to a share, such as "rw 0.0.0.0/0", and returns its ID when
// all rules of the share are active.
func Allow(ctx context.Context, client *gophercloud.ServiceClient, shareID, kind, rule string,
) (id string, err error) {
	granted, err := shares.GrantAccess(ctx, client, shareID, shares.GrantAccessOpts{
		AccessType: kind, AccessLevel: rule[:2], AccessTo: rule[3:],
	}).Extract()
	if err != nil {
		return "", err
	}
	return granted.ID, wait.PollUntilContextTimeout(ctx, interval, patience, true,
		func(ctx context.Context) (bool, error) {
			rules, err := shareaccessrules.List(ctx, client, shareID).Extract()
			busy := slices.ContainsFunc(rules, func(r shareaccessrules.ShareAccess) bool {
				return r.State != "active"
			})
			return !busy, err
		})
}
