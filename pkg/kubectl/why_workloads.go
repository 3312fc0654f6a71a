package kubectl

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/explain"
)

// locate returns the cluster of a workload. Without the flag --namespace it chooses the namespace
// of the driver with a workload of this name.
func (q *question) locate(ctx context.Context, isDeployment bool) (*cluster, *driver, error) {
	d := owner(q.name)
	if d == nil {
		return q.guest, nil, nil
	}
	chosen := q.overrides.Context.Namespace != ""
	if !isDeployment {
		if !chosen {
			q.namespace = d.namespace
		}
		return q.guest, d, nil
	}
	at := q.place(ctx, *d)
	if at == nil {
		return nil, nil, cmp.Or(q.failed(), usage("Deployment %s is in the hosted control plane: set "+
			"--management-kubeconfig and --management-namespace", q.name))
	}
	if !chosen || q.management != nil {
		q.namespace = at.namespace
		if q.name == d.operator {
			q.namespace = at.operator
		}
	}
	return at.cluster, d, nil
}

func explainDeployment(ctx context.Context, q question) (*answer, error) {
	from, d, err := q.locate(ctx, true)
	if err != nil {
		return nil, err
	}
	facts := explain.WorkloadFacts{Now: q.clock.Now(), Deployment: &appsv1.Deployment{}}
	there := *q.session
	there.guest = from
	if err := (question{&there, q.namespace, q.name}).read(ctx, facts.Deployment); err != nil {
		return nil, err
	}
	var sets appsv1.ReplicaSetList
	from.read(ctx, &sets, client.InNamespace(q.namespace))
	facts.ReplicaSets = sets.Items
	return q.workload(ctx, from, facts, d, facts.Deployment)
}

func explainDaemonSet(ctx context.Context, q question) (*answer, error) {
	from, d, err := q.locate(ctx, false)
	if err != nil {
		return nil, err
	}
	facts := explain.WorkloadFacts{Now: q.clock.Now(), DaemonSet: &appsv1.DaemonSet{}}
	if err := q.read(ctx, facts.DaemonSet); err != nil {
		return nil, err
	}
	var revisions appsv1.ControllerRevisionList
	from.read(ctx, &revisions, client.InNamespace(q.namespace))
	facts.Revisions = revisions.Items
	return q.workload(ctx, from, facts, d, facts.DaemonSet)
}

// workload adds the pods of a workload, the events of the first one that is not ready, and those of
// the workload.
func (q question) workload(
	ctx context.Context, from *cluster, facts explain.WorkloadFacts, d *driver, object client.Object,
) (*answer, error) {
	facts.Pods = podsOf(ctx, from, object)
	for i := range facts.Pods {
		if !explain.IsReady(&facts.Pods[i]) {
			facts.Events = events(ctx, from, &facts.Pods[i])
			break
		}
	}
	facts.Events = append(facts.Events, events(ctx, from, object)...)
	if d != nil {
		facts.System = q.system(ctx, *d)
	}
	links := explain.Workload(facts)
	state := "rolled out"
	if links[0].State != explain.OK {
		state = "not rolled out"
	}
	return &answer{state: state, links: links}, nil
}

func explainDriver(ctx context.Context, q question) (*answer, error) {
	d := findDriver(q.name)
	if d == nil {
		return nil, usage("clustercsidriver/%s: only those of OpenStack are known", q.name)
	}
	sys := q.system(ctx, *d)
	if sys == nil {
		if q.guest.hidden["ClusterCSIDrivers"] {
			return nil, fmt.Errorf("ClusterCSIDriver %s is not visible", d.name)
		}
		gone := []explain.Link{{State: explain.Problem, Text: explain.Gone(d.name)}}
		return &answer{state: "gone", links: gone}, nil
	}
	state, links := "not ready", explain.Driver(sys)
	// The operator sees less than this command, such as the Leases of the sidecars.
	if c := sys.Condition("Ready"); c != nil && c.Status == "True" && explain.Cause(links) == nil {
		state = q.since("ready", c.LastTransitionTime.Time)
	}
	return &answer{state: state, links: links}, nil
}
