package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/generations"
)

// earlierRoles is the folder of what cluster-storage-operator grants to earlier drivers.
const earlierRoles = "earlier-roles"

// InstallEarlier writes the objects of the operators of an earlier release, such as 4.22, into a
// cluster with real nodes. The drivers run the programs of this release. The operators must have no
// pods.
func (c *Cluster) InstallEarlier(ctx context.Context, release string) error {
	if !c.RunsOperators() {
		return errors.New("drivers of an earlier release need real nodes")
	}
	var all []*unstructured.Unstructured
	for _, o := range c.opts.Operators {
		objects, err := c.earlierObjects(o, release)
		if err != nil {
			return err
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		if err := c.replace(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// WithdrawEarlierRoles deletes the permissions that only earlier drivers need.
func (c *Cluster) WithdrawEarlierRoles(ctx context.Context) error {
	var errs []error
	for _, o := range c.opts.Operators {
		objects, err := fixtures.Render(earlierRoles, fixtures.Values{Operator: o})
		errs = append(errs, err)
		for _, object := range objects {
			errs = append(errs, c.management.writer.Delete(ctx, object))
		}
	}
	return errors.Join(errs...)
}

// earlierObjects returns the objects of an earlier operator, with what it knew at run time.
func (c *Cluster) earlierObjects(
	o fixtures.Operator, release string,
) ([]*unstructured.Unstructured, error) {
	all, err := generations.Of(o.ClusterCSIDriver, flavour.Standalone, o.OperandNamespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(g generations.Generation) bool {
		return g.Name == o.Driver+"-"+release
	})
	if i < 0 {
		return nil, fmt.Errorf("driver %s has no release %q, only %s", o.Driver, release,
			cmp.Or(names(all), "this one"))
	}
	objects, err := fixtures.Render(earlierRoles, fixtures.Values{Operator: o})
	if err != nil {
		return nil, err
	}
	for _, object := range all[i].Objects {
		if err := c.adapt(object.Unstructured, o); err != nil {
			return nil, fmt.Errorf("adapting %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		objects = append(objects, object.Unstructured)
	}
	return objects, nil
}

// names returns the releases of the generations of a driver.
func names(all []generations.Generation) string {
	var names []string
	for _, g := range all {
		_, release, _ := strings.Cut(g.Name, "-")
		names = append(names, release)
	}
	return strings.Join(names, ", ")
}
