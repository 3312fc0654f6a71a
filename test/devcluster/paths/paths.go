// Package paths defines where the files of a devcluster are. The other packages of the devcluster
// and the integration tests use it.
package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is the folder with the state of one devcluster. It contains such a folder for each guest
// cluster, with the files of its API server and of its operators.
type Dir string

func (d Dir) in(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// AdminKubeconfig is the kubeconfig of a member of system:masters.
func (d Dir) AdminKubeconfig() string { return d.in("admin.kubeconfig") }

// Kubeconfig is the kubeconfig of the ServiceAccount of an operator.
func (d Dir) Kubeconfig(operator string) string { return d.in(operator + ".kubeconfig") }

// AuditLog is the audit log of the API server.
func (d Dir) AuditLog() string { return d.in("audit.log") }

// Logs contains the logs of the Kubernetes components.
func (d Dir) Logs() string { return d.in("logs") }

// ControlPlanes contains the certificates and data of each control plane.
func (d Dir) ControlPlanes() string { return d.in("controlplane") }

// OperatorLog is the log of an operator that `devcluster run` started.
func (d Dir) OperatorLog(program string) string { return d.in(program + ".log") }

// OperatorEnv is a file of KEY=VALUE lines, the environment of an operator.
func (d Dir) OperatorEnv(operator string) string { return d.in(operator + ".env") }

// Mounted is a file or folder that an operator mounts at a path of its pod.
func (d Dir) Mounted(operator, path string) string { return d.in(operator, path) }

// OperatorConfig is the configuration file of an operator.
func (d Dir) OperatorConfig(operator string) string {
	return d.Mounted(operator, "/var/run/configmaps/config/config.yaml")
}

// GuestKubeconfig is the admin kubeconfig of the guest cluster for an operator.
func (d Dir) GuestKubeconfig(operator string) string {
	return d.Mounted(operator, "/etc/guest-kubeconfig/kubeconfig")
}

// Definitions contains CustomResourceDefinitions that are in no module.
func (d Dir) Definitions() string { return d.in("controlplane", "definitions") }

// Own makes the folder the folder of a devcluster: it writes a file into a folder that is new or
// empty. If another folder does not contain this file, Own returns an error and changes nothing.
func (d Dir) Own() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	files, err := os.ReadDir(string(d))
	switch {
	case err != nil:
		return fmt.Errorf("reading the state folder: %w", err)
	case len(files) == 0:
		return WriteFile(d.marker(), []byte("A devcluster removes files in this folder.\n"))
	}
	if _, err := os.Stat(d.marker()); err != nil {
		return fmt.Errorf("%s is not empty and is not the folder of a devcluster: choose an empty "+
			"folder, or remove this one if an earlier version of the devcluster made it", d)
	}
	return nil
}

func (d Dir) marker() string { return d.in(".is-devcluster") }

// Clear removes the files of an earlier cluster, perhaps of other operators. It keeps all other
// files, and returns an error if it would remove a file outside of the folder.
func (d Dir) Clear() error {
	if err := d.Own(); err != nil {
		return err
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return fmt.Errorf("opening the state folder: %w", err)
	}
	var errs []error
	for _, name := range []string{
		"logs", "nodes", "openstack", "controlplane", "audit.log", "control.url", "admin.kubeconfig",
		"*-operator.*", "*-operator",
	} {
		for _, folder := range []string{"", "guests/*/"} {
			files, err := fs.Glob(os.DirFS(string(d)), folder+name)
			errs = append(errs, err)
			for _, file := range files {
				errs = append(errs, root.RemoveAll(file))
			}
		}
	}
	return errors.Join(append(errs, root.Close())...)
}

// WriteFile replaces a file atomically, and creates its folder.
func WriteFile(path string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

// Node is the folder of a real node.
func (d Dir) Node(name string) string { return d.in("nodes", name) }

// OpenStackState is the folder of the simulated cloud with the data of volumes and shares, if there
// are real nodes.
func (d Dir) OpenStackState() string { return d.in("openstack") }

// Guest is the folder of a guest cluster.
func (d Dir) Guest(name string) Dir { return Dir(d.in("guests", name)) }

// Control is a file with the URL at which the running devcluster takes requests.
func (d Dir) Control() string { return d.in("control.url") }

// Lock is held by the process that runs the cluster.
func (d Dir) Lock() string { return d.in("lock") }
