package cluster

import (
	"context"
	"errors"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/kubeletvolumes"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// Environment is the place in which operators run: a standalone cluster, or the control plane
// namespace of a guest cluster.
type Environment struct {
	// Guest is the guest cluster. It is empty in a standalone cluster.
	Guest string
	// Dir contains the files of the operators' pods.
	Dir paths.Dir
	// Operators are the operators of this environment, with their namespace and address.
	Operators []fixtures.Operator
	// CSIAddons says that the operators add CSI-Addons to their drivers.
	CSIAddons bool

	// kubectl is set if the cluster is not OpenShift: it builds the manifests for Kubernetes.
	kubectl string
	// simulated says that the nodes are simulated.
	simulated bool
	// control is the cluster in which the operators run, target the cluster with the nodes of the
	// drivers. They are the same in a standalone cluster.
	control, target *controlPlane
}

// userOfOperators differs from the user of people and tests, so that audit logs distinguish them.
const userOfOperators = "system:admin"

// Config returns the configuration of an administrator of the cluster with the drivers' nodes.
func (s *Environment) Config() *rest.Config { return s.target.Config() }

// ControlConfig returns the configuration of an administrator of the operators' cluster.
func (s *Environment) ControlConfig() *rest.Config { return s.control.Config() }

// Etcd returns the URL of the etcd of that cluster.
func (s *Environment) Etcd() string { return s.target.Etcd() }

// ControlEtcd returns the URL of the etcd of the cluster in which the operators run.
func (s *Environment) ControlEtcd() string { return s.control.Etcd() }

func (s *Environment) isHosted() bool { return s.Guest != "" }

// sides calls work for the objects of each cluster. openstack is nil without a cloud.
func (s *Environment) sides(
	openstack *fixtures.Cloud, work func(fixtures.Writer, fixtures.Side) error,
) error {
	do := func(p *controlPlane, side fixtures.Side) error {
		side.Values.Cloud = openstack
		return work(p.writer, side)
	}
	if s.kubectl != "" {
		side := fixtures.Kubernetes(s.Operators, s.kubectl, s.simulated)
		side.CSIAddons = s.CSIAddons
		return do(s.target, side)
	}
	if !s.isHosted() {
		return do(s.target, fixtures.Standalone(s.Operators))
	}
	if err := do(s.target, fixtures.Guest(s.Guest, s.Operators)); err != nil {
		return err
	}
	return do(s.control, fixtures.ControlPlane(s.Guest, s.Operators))
}

// populate creates all objects of the environment.
func (s *Environment) populate(ctx context.Context, openstack *fixtures.Cloud) error {
	err := s.sides(openstack, func(w fixtures.Writer, side fixtures.Side) error {
		return side.Populate(ctx, w)
	})
	if err != nil || !s.isHosted() {
		return err
	}
	return s.renewGuestKubeconfig(ctx)
}

// renewCredentials updates the Secrets of the operators and drivers, as cloud-credential-operator
// does. HyperShift only creates those that are missing.
func (s *Environment) renewCredentials(ctx context.Context, openstack *fixtures.Cloud) error {
	return s.sides(openstack, func(w fixtures.Writer, side fixtures.Side) error {
		if s.isHosted() {
			return side.CreateCredentials(ctx, w)
		}
		return side.RenewCredentials(ctx, w)
	})
}

// renewGuestKubeconfig issues a new certificate for the kubeconfig in the control plane namespace.
func (s *Environment) renewGuestKubeconfig(ctx context.Context) error {
	content, err := s.target.Issue(userOfOperators, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	admin, err := os.ReadFile(s.Dir.AdminKubeconfig())
	if err != nil {
		return err
	}
	side := fixtures.ControlPlane(s.Guest, s.Operators)
	side.Values.GuestKubeconfig, side.Values.AdminKubeconfig = string(content), string(admin)
	return side.WriteGuestKubeconfig(ctx, s.control.writer)
}

// writeFiles writes the files of the operators' pods that do not change.
func (s *Environment) writeFiles(ctx context.Context) error {
	for _, o := range s.Operators {
		kubeconfig, err := fixtures.ServiceAccountKubeconfig(ctx, s.control.Config(), o)
		if err != nil {
			return err
		}
		if err := paths.WriteFile(s.Dir.Kubeconfig(o.Name), kubeconfig); err != nil {
			return err
		}
		env := strings.Join(o.Env(), "\n") + "\n"
		if err := paths.WriteFile(s.Dir.OperatorEnv(o.Name), []byte(env)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Environment) volumes() []kubeletvolumes.Volume {
	var all []kubeletvolumes.Volume
	for _, o := range s.Operators {
		for _, mount := range o.Container().VolumeMounts {
			folder := s.Dir.Mounted(o.Name, mount.MountPath)
			all = append(all, kubeletvolumes.Of(o.Namespace, o.Volume(mount.Name), folder)...)
		}
	}
	return all
}

// UseRolesOfOpenShift replaces the Roles of an operator by those of a release of OpenShift.
func (s *Environment) UseRolesOfOpenShift(
	ctx context.Context, o fixtures.Operator, release string,
) error {
	removed, err := o.Roles(s.isHosted())
	if err != nil {
		return err
	}
	added, err := o.RolesOfOpenShift(s.isHosted(), release)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range removed {
		errs = append(errs, s.control.writer.Delete(ctx, object))
	}
	for _, object := range added {
		errs = append(errs, s.control.writer.Write(ctx, object))
	}
	return errors.Join(errs...)
}
