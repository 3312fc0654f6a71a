package logins_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/drivers/manila"
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

// generate returns what the operators generate from a content, or why they refuse it.
func generate(c content) (generated, error) {
	entry, err := openstack.Secret{Name: "Secret", Data: c.secret}.Entry(openstack.DefaultCloud)
	if err != nil {
		return generated{}, err
	}
	ca := cmp.Or(string(c.secret["cacert"]), c.ca)
	options := cinder.Options{CloudsFile: cloudsFile, Cloud: entry.Name}
	if ca != "" {
		if err := openstack.CheckCA([]byte(ca)); err != nil {
			return generated{}, fmt.Errorf("the CA %w", err)
		}
		options.CAFile = caFile
	}
	conf, err := cinder.CloudConf(nil, options)
	return generated{conf, c.secret["clouds.yaml"], ca, manila.Keys(entry, ca)}, err
}

// login logs in as the operator of a driver, and returns the URLs of the services that it uses.
func login(t *testing.T, c content, server *cloud, driver string) (map[string]string, error) {
	t.Helper()
	source := openstack.Source{Secret: func() (openstack.Secret, error) {
		return openstack.Secret{Name: "Secret", Data: c.secret}, nil
	}}
	if c.ca != "" {
		file := filepath.Join(t.TempDir(), "ca-bundle.pem")
		if err := os.WriteFile(file, []byte(c.ca), 0o600); err != nil {
			t.Fatal(err)
		}
		source.CAFiles = []string{file}
	}
	client := openstack.NewClient(source, clock.RealClock{})
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
	err := find("compute", "/os-availability-zone", func(ctx context.Context) error {
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
