package command

import (
	"context"
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/openstack-csi/csi-operator/test/devcluster/cloud"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// renewSecrets updates the Secrets of all operators and drivers, as cloud-credential-operator or
// HyperShift would. The running cluster copies them to the operators' files.
func renewSecrets(ctx context.Context, p places, client *simulator.Client) error {
	if _, err := os.Stat(p.dir.AdminKubeconfig()); err != nil {
		return nil //nolint:nilerr // a cloud without a cluster
	}
	described, err := cloud.Describe(ctx, client)
	if err != nil {
		return err
	}
	guests, err := p.dir.Guests()
	if err != nil {
		return err
	}
	if len(guests) == 0 {
		operators, err := operatorsIn(p.dir)
		if err != nil {
			return err
		}
		return renew(ctx, p.dir, fixtures.Standalone(operators), described)
	}
	for _, guest := range guests {
		operators, err := operatorsIn(p.dir.Guest(guest))
		if err != nil {
			return err
		}
		if err := renew(ctx, p.dir, fixtures.ControlPlane(guest, operators), described); err != nil {
			return err
		}
		err = renew(ctx, p.dir.Guest(guest), fixtures.Guest(guest, operators), described)
		if err != nil {
			return err
		}
	}
	return nil
}

// renew updates the Secrets of one side in the cluster that has its files in dir.
func renew(ctx context.Context, dir paths.Dir, side fixtures.Side, described fixtures.Cloud) error {
	config, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	writer, err := fixtures.NewWriter(config)
	if err != nil {
		return err
	}
	side.Values.Cloud = described
	return side.RenewCredentials(ctx, writer)
}

// operatorsIn returns the operators of a running cluster: they have kubeconfigs.
func operatorsIn(dir paths.Dir) ([]fixtures.Operator, error) {
	all, err := fixtures.AllOperators()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o fixtures.Operator) bool {
		_, err := os.Stat(dir.Kubeconfig(o.Name))
		return err != nil
	}), nil
}
