package kubectl

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// kindOf returns the kind of the object that configures the operator of a driver.
func (c *cluster) kindOf(d driver) schema.GroupVersionKind { return c.flavour.Object(d.ownKind()) }

// ownKind returns our kind for a driver.
func (d driver) ownKind() string { return d.title + "Driver" }

// onOpenShift returns whether objects of OpenShift configure the operators.
func (c *cluster) onOpenShift() bool { return c.flavour.Object("").Group == opv1.GroupName }

// object reads the object that configures the operator of a driver; nil if there is none. All kinds
// have the fields of a ClusterCSIDriver that the commands read.
func (s *session) object(ctx context.Context, d driver) *opv1.ClusterCSIDriver {
	object, found := &opv1.ClusterCSIDriver{}, &unstructured.Unstructured{}
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
	if d := c.findDriver(driver); d != nil && !c.onOpenShift() {
		return "spec." + field + " of " + c.nameOf(*d)
	}
	return field + " in " + choice.Key
}
