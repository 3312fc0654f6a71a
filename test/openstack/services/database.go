package services

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// createDatabases creates the databases of all services side by side, and the secrets of Keystone.
func (s settings) createDatabases(ctx context.Context) error {
	group, creating := errgroup.WithContext(ctx)
	for name, steps := range map[string][][]string{
		keystone: s.keystoneSteps(),
		manila:   {{s.script("manila_tables.py"), s.configuration(manila)}},
		cinder:   {s.manage(cinder, "db", "sync")},
		nova:     s.novaSteps(),
	} {
		group.Go(func() error {
			for _, arguments := range steps {
				if err := s.python(creating, name+"-database", nil, arguments...); err != nil {
					return fmt.Errorf("creating the databases of %s: %w", name, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	files, err := filepath.Glob(s.Database("*"))
	if err != nil {
		return err
	}
	return s.python(ctx, "databases", nil, append([]string{s.script("wal.py")}, files...)...)
}

// manage returns the arguments of a management command.
func (s settings) manage(name string, arguments ...string) []string {
	return append([]string{s.script("manage.py"), name, s.configuration(name)}, arguments...)
}

func (s settings) keystoneSteps() [][]string {
	owner := []string{
		"--keystone-user", fmt.Sprint(os.Getuid()), "--keystone-group", fmt.Sprint(os.Getgid()),
	}
	return [][]string{
		s.manage(keystone, "db_sync"),
		s.manage(keystone, append([]string{"fernet_setup"}, owner...)...),
		s.manage(keystone, "bootstrap", "--bootstrap-password", s.Password,
			"--bootstrap-region-id", simulator.DefaultRegion, "--bootstrap-public-url", s.AuthURL,
			"--bootstrap-internal-url", s.AuthURL, "--bootstrap-admin-url", s.AuthURL),
	}
}

// novaSteps create the database of the API, and those of the two cells that Nova requires.
func (s settings) novaSteps() [][]string {
	url := func(name string) string { return "sqlite:///" + s.Database(name) }
	return [][]string{
		s.manage(nova, "api_db", "sync"),
		s.manage(nova, "cell_v2", "map_cell0", "--database_connection", url("nova_cell0")),
		s.manage(nova, "cell_v2", "create_cell", "--name", "cell1", "--transport-url", "fake:/",
			"--database_connection", url("nova_cell1")),
		s.manage(nova, "db", "sync"),
		s.manage(nova, "--config-file", s.script("nova/cell1.conf"), "db", "sync", "--local_cell"),
	}
}
