package manila

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
	"github.com/openstack-csi/csi-operator/pkg/zones"
)

const (
	// driverContainer is the container of the driver in both workloads.
	driverContainer = "csi-driver"
	// withTopology makes the driver report the zone of its node, and create shares in a zone.
	withTopology = "--with-topology"

	topologyChanged = service + "TopologyChanged"
)

// errNoDecision is for zones that have not decided, without pods that show an earlier decision.
var errNoDecision = errors.New("OpenStack has not listed its availability zones yet")

// topology is whether shares follow pods into availability zones.
type topology struct {
	choices *plugin.Choices
	tracker *zones.Tracker
	// deployed is the Deployment, whose pods show the decision of an earlier process. The one of the
	// management cluster counts: the administrator of a guest cluster can write the DaemonSet.
	deployed cluster.Object[appsv1.Deployment]
	events   events.Recorder
}

func newTopology(
	s plugin.Dependencies, choices *plugin.Choices, credentials *credential.Watcher,
) *topology {
	t := &topology{
		choices: choices, events: s.Events,
		deployed: s.Cluster.Deployment(flavour.ControlPlane, s.Cluster.Namespaces.ControlPlane,
			controllerName),
	}
	t.tracker = &zones.Tracker{Options: zones.Options{
		Operator: s.Cluster.Operator, Condition: service + "CloudReachable", Storage: zones.Shares(),
		Deployed: t.earlier, Clock: s.Clock, Poll: s.Settings.PollInterval,
		Connect: func(ctx context.Context) (zones.Cloud, error) { return credentials.Client(ctx) },
	}}
	return t
}

// earlier returns whether the deployed pods have topology, nil if there are none.
func (t *topology) earlier() *bool {
	deployed := t.deployed.Get()
	if deployed == nil {
		return nil
	}
	return new(slices.ContainsFunc(deployed.Spec.Template.Spec.Containers,
		func(c corev1.Container) bool {
			return c.Name == driverContainer && slices.Contains(c.Args, withTopology)
		}))
}

// enabled returns the choice of the administrator or the decision of the zones, nil if unknown.
func (t *topology) enabled() *bool {
	switch chosen := t.choices.Config().Topology; chosen {
	case choice.Auto:
		return cmp.Or(t.tracker.Current().Topology, t.earlier())
	default:
		return new(chosen == choice.Enabled)
	}
}

// hook returns the hook that passes the topology to the driver.
func (t *topology) hook() hook.Workload {
	w := hook.Pods(func(pod *corev1.PodSpec) error {
		enabled := t.enabled()
		if enabled == nil {
			return errNoDecision
		}
		for i := range pod.Containers {
			if one := &pod.Containers[i]; one.Name == driverContainer && *enabled {
				one.Args = append(one.Args, withTopology)
			}
		}
		return nil
	})
	w.Informers = []factory.Informer{&t.tracker.Changed}
	return w
}

// after returns the request of the cloud probe, which lists the zones after the share types if they
// decide. Their failure matters only to a driver that was never deployed.
func (t *topology) after(
	types cloudprobe.Request[[]openstack.Type],
) cloudprobe.Request[[]openstack.Type] {
	return func(ctx context.Context) ([]openstack.Type, cloudprobe.Availability, error) {
		found, availability, err := types(ctx)
		decides := t.choices.Config().Topology == choice.Auto
		if !decides {
			t.tracker.Forget()
		}
		if err != nil || !decides {
			return found, availability, err
		}
		before := t.enabled()
		failed := t.tracker.Probe(ctx)
		switch after := t.enabled(); {
		case after == nil && availability.Available:
			return nil, cloudprobe.Availability{}, failed
		case before != nil && after != nil && *before != *after:
			t.events.Eventf(topologyChanged, "Topology changes from %v to %v because of %s", *before,
				*after, t.tracker.Current().Cause)
		}
		return found, availability, nil
	}
}

// remarks returns what keeps the choice from its effect, for a condition.
func (t *topology) remarks(existing *storageclass.Controller) (found []string) {
	config, err := t.choices.Current()
	enabled, status := t.enabled(), t.tracker.Current()
	if err != nil || config == nil || config.Topology == "" || enabled == nil {
		return nil
	}
	remark := func(format string, values ...any) {
		found = append(found, t.choices.Place()+": topology: "+fmt.Sprintf(format, values...))
	}
	if config.Topology == choice.Auto {
		fault, unserved := status.Zones.Fault(), status.Zones.Unserved()
		switch {
		case status.Err != nil:
			remark("it stays %v, because the zones cannot be listed: %v. To continue without the lists, "+
				"set it to %s or %s", *enabled, status.Err, choice.Enabled, choice.Disabled)
		case fault != "" && !*enabled:
			remark("it is off: %s. If no node of the cluster is in such a zone, set it to %s", fault,
				choice.Enabled)
		case unserved != "" && *enabled:
			remark("it stays on, but pods in compute zones %s get no new shares: Manila does not list "+
				"these zones, for example in a maintenance, or node labels cannot hold their names. If this "+
				"is permanent, and the cluster has nodes there, set it to %s", unserved, choice.Disabled)
		}
		for _, misplaced := range status.Zones.Misplaced(config) {
			if *enabled {
				remark("%s is no zone of servers, so no node can use the shares: %s", misplaced,
					status.Zones.Instead("set it to "+choice.Disabled))
			}
		}
	}
	for _, class := range existing.Selected() {
		if classes.HasTopology(class) != *enabled {
			remark("StorageClass %s was created with topology %v, and stays so. To change it, delete it: "+
				"the operator creates it again", class.Name, !*enabled)
		}
	}
	return found
}
