package logins_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// The paths in the containers of the driver of Cinder.
const (
	cloudsFile = "/etc/kubernetes/secret/clouds.yaml"
	caFile     = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// generated is what the operators write for the drivers.
type generated struct {
	cloudConf, clouds []byte
	ca                string
	keys              map[string]string
}

// login returns the login of a content.
func (c content) login() (*clouds.Login, error) {
	return clouds.Content{
		Name: "Secret", Data: c.secret, CA: c.ca, CAName: "key ca-bundle.pem of ConfigMap",
	}.Login()
}

// generate returns what the operators generate from a content, or why they refuse it.
func generate(c content) (generated, error) {
	login, err := c.login()
	if err != nil {
		return generated{}, err
	}
	options := cinder.Options{
		CloudsFile: cloudsFile, Cloud: login.Entry, Insecure: login.Insecure,
	}
	if login.CA != "" {
		options.CAFile = caFile
	}
	conf, err := cinder.CloudConf(nil, options)
	return generated{conf, login.CloudsYAML(), login.CA, login.ManilaKeys()}, err
}

// login tests the login as the operator of a driver, and returns the URLs of the services that it
// uses.
func login(t *testing.T, c content, server *cloud, driver string) (map[string]string, error) {
	t.Helper()
	login, err := c.login()
	if err != nil {
		return nil, err
	}
	client := openstack.NewClient(openstack.Fixed(openstack.Access{Login: login}),
		openstack.NewBackoff(clock.RealClock{}))
	services := []openstack.Service{openstack.Nova(), openstack.Cinder()}
	if driver == "manila" {
		services = []openstack.Service{openstack.Manila()}
	}
	if err := client.Check(t.Context(), services...); err != nil {
		return nil, err
	}
	server.takePaths()
	endpoints := map[string]string{}
	find := func(service, path string, list func(context.Context) error) error {
		err := list(t.Context())
		if _, paths := server.takePaths(); len(paths) > 0 {
			endpoints[service] = strings.TrimSuffix(paths[len(paths)-1], path)
		}
		return err
	}
	if driver == "manila" {
		return endpoints, find("shares", "/types", func(ctx context.Context) error {
			_, err := client.ShareTypes(ctx)
			return err
		})
	}
	err = find("compute", "/os-availability-zone", func(ctx context.Context) error {
		_, err := client.ComputeZones(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return endpoints, find("volumes", "/os-availability-zone", func(ctx context.Context) error {
		_, err := client.VolumeZones(ctx)
		return err
	})
}

// takePaths returns the paths of requests since the last call, and keeps the logins.
func (c *cloud) takePaths() (logins, paths []string) {
	logins, paths = c.take()
	c.mu.Lock()
	c.logins = slices.Concat(logins, c.logins)
	c.mu.Unlock()
	return logins, paths
}
