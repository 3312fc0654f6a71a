package kubectl

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// kindOf returns the kind of the object that configures the operator of a driver.
func (c *cluster) kindOf(d driver) schema.GroupVersionKind { return d.kindIn(c.flavour) }

func (d driver) kindIn(f flavour.Flavour) schema.GroupVersionKind {
	return f.Object(d.title + "Driver")
}

// object reads the object that configures the operator of a driver; nil if there is none. All kinds
// have the fields of a ClusterCSIDriver that the commands read.
func (s *session) object(ctx context.Context, d driver) *opv1.ClusterCSIDriver {
	object := &opv1.ClusterCSIDriver{}
	if s.guest.flavour.OpenShift() {
		return find(ctx, s.guest, "", d.name, object)
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(s.guest.kindOf(d))
	if find(ctx, s.guest, "", d.name, found) == nil {
		return nil
	}
	s.guest.failed = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object)
	return object
}

// unseen returns whether the objects of drivers may not be read.
func (c *cluster) unseen() bool {
	for _, d := range c.drivers() {
		if c.hidden[plural(c.kindOf(d).Kind)] {
			return true
		}
	}
	return false
}

// nameOf returns the kind and the name of the object of a driver for messages.
func (c *cluster) nameOf(d driver) string { return c.kindOf(d).Kind + " " + d.name }

// argument returns the same for kubectl.
func (c *cluster) argument(d driver) string { return strings.ToLower(c.nameOf(d)) }

// setting returns where the administrator makes a choice for a driver, which may be of others.
func (c *cluster) setting(field, driver string) string {
	if d := c.findDriver(driver); d != nil && !c.flavour.OpenShift() {
		return "spec." + field + " of " + c.nameOf(*d)
	}
	return field + " in " + choice.Key
}
