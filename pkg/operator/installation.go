package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/config/leaderelection"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/host"
)

// installation is the operator as the one that serves the object of its driver. Outside OpenShift
// anybody may install an operator, in any namespace. status.namespace of the object names the
// installation that serves it, and status.clusterID records the ID that its volumes have.
type installation struct {
	process host.Process
	// kind and name are those of the object, and object is both in messages.
	kind         schema.GroupVersionKind
	name, object string
	objects      dynamic.ResourceInterface
	definition   func(context.Context) (*metav1.PartialObjectMetadata, error)
	kube         kubernetes.Interface
	// operator is the name of the operator's Deployment and ServiceAccount.
	operator, namespace string
	// controller is the name of the driver's Deployment.
	controller string
	// election contains the name and the durations of the Lease that an operator holds while it runs.
	election configv1.LeaderElection
	// uid is the UID of the cluster.
	uid string
	// outdated is a warning about the CustomResourceDefinition, "" if it is current.
	outdated string
	// end ends the work of this installation.
	end context.CancelCauseFunc
}

const (
	// claimInterval is the time between two reads of an object that does not exist.
	claimInterval = time.Second
	// installationInterval is the time between two checks of the CustomResourceDefinition.
	installationInterval = time.Minute
)

// newInstallation returns nil on OpenShift, which installs one operator.
func (o *operator) newInstallation(c *cluster.Cluster, process host.Process) *installation {
	if c.Config.Proxies != nil {
		return nil
	}
	clients, kind := c.Side(flavour.Guest), c.Flavour.Object(o.drivers[0].Kind)
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	definitions := clients.Metadata.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	return &installation{
		process: process, kind: kind, name: o.driver, object: c.Object,
		objects: clients.Dynamic.Resource(resource), kube: clients.Kube,
		definition: func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
			return definitions.Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
		},
		operator: o.name, namespace: o.namespaces.Operator, controller: controllerOf(o.bundles[0]),
		election: leaderelection.LeaderElectionDefaulting(o.settings.Operator.LeaderElection,
			"", cmp.Or(o.drivers[0].Component, o.name)+"-lock"),
	}
}

// run waits until this installation serves the object, and runs work until ctx is done or another
// installation has taken over.
func (i *installation) run(ctx context.Context, work func(context.Context)) error {
	if i == nil {
		work(ctx)
		return nil
	}
	if err := i.claim(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	i.end = end
	work(working)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(working)
}

// claim waits until this installation serves the object. Before, the operator must write nothing.
func (i *installation) claim(ctx context.Context) error {
	system, err := i.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the UID of the cluster: %w", err)
	}
	i.uid = string(system.UID)
	other := &otherInstallation{installation: i}
	for {
		switch done, err := other.claim(ctx); {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("finding out which installation serves %s: %w", i.object, err)
		case done:
			i.process.SetReady(true)
			return nil
		}
		interval := claimInterval
		if other.served != "" {
			interval = i.election.RetryPeriod.Duration
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.process.Clock.After(interval):
		}
	}
}

// serve records that this installation serves an object, unless it is recorded. It returns why a
// cluster ID has no effect, "" if it has.
func (i *installation) serve(ctx context.Context, object *unstructured.Unstructured) (
	string, error,
) {
	recorded := textIn(object, "status", "clusterID")
	known := recorded
	if recorded == "" {
		var err error
		if known, err = i.deployedID(ctx); err != nil {
			return "", err
		}
	}
	id, ignored := i.clusterID(object, known)
	if textIn(object, "status", "namespace") == i.namespace && recorded == id {
		return ignored, nil
	}
	klog.FromContext(ctx).Info("Recording the installation", "object", i.object, "namespace",
		i.namespace, "clusterID", id, "before", recorded)
	desired := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"namespace": i.namespace, "clusterID": id},
	}}
	desired.SetGroupVersionKind(i.kind)
	desired.SetName(i.name)
	desired.SetResourceVersion(object.GetResourceVersion()) // another one may do the same
	_, err := i.objects.ApplyStatus(ctx, i.name, desired,
		metav1.ApplyOptions{Force: true, FieldManager: "installation"})
	if err != nil {
		err = fmt.Errorf("recording the installation in %s: %w", i.object, err)
	}
	return ignored, err
}

// compare reads the revision of the CustomResourceDefinition. With one of an earlier release, the
// API server removes new fields from the object without a message.
func (i *installation) compare(ctx context.Context) error {
	crd, err := i.definition(ctx)
	if err != nil {
		return fmt.Errorf("reading the revision of the CustomResourceDefinition: %w", err)
	}
	before := i.outdated
	i.outdated = ""
	if revision, _ := strconv.Atoi(crd.Annotations[api.RevisionAnnotation]); revision < api.Revision {
		i.outdated = fmt.Sprintf("CustomResourceDefinition %s is of an earlier release (revision %d, "+
			"not %d), so new fields have no effect. Run, with crds.yaml of this release: kubectl apply "+
			"--server-side --force-conflicts -f crds.yaml; or with Helm: helm show crds \"$CHART\" | "+
			"kubectl apply --server-side --force-conflicts -f -", crd.Name, revision, api.Revision)
	}
	if i.outdated != before {
		klog.FromContext(ctx).Info("Compared the CustomResourceDefinition", "problem", i.outdated)
	}
	return nil
}

// installation returns the controller that keeps the object claimed, and of the condition
// InstallationValid. It ends the process when another installation has taken over.
func (d *driver) installation(name string) (factory.Controller, error) {
	i := d.serves
	if i == nil {
		return nil, nil
	}
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		object := d.cluster.Cached()
		if object == nil {
			return nil
		}
		if by := textIn(object, "status", "namespace"); by != "" && by != i.namespace {
			i.end(fmt.Errorf("the installation in namespace %s has taken over %s", by, i.object))
			return nil
		}
		ignored, err := i.serve(ctx, object)
		if apierrors.IsConflict(err) {
			return nil // the cache changes, too
		}
		if i.outdated != "" {
			err = errors.Join(err, i.compare(ctx))
		}
		return errors.Join(err, cluster.ApplyConditions(ctx, d.operator, name, i.condition(ignored)))
	}
	return factory.New().
		WithInformers(d.operator.Informer()).
		WithSync(sync).
		WithSyncDegradedOnError(d.operator).
		ResyncEvery(installationInterval).
		ToController(name, d.events), nil
}

func (i *installation) condition(ignored string) *cluster.Condition {
	valid := cluster.NewCondition(guest.ConditionInstallation, opv1.ConditionTrue, "AsExpected", "")
	reason := "ClusterIDDiffers"
	if ignored == "" {
		reason = "OldDefinition"
	}
	if problems := strings.Trim(ignored+"\n"+i.outdated, "\n"); problems != "" {
		valid.WithStatus(opv1.ConditionFalse).WithReason(reason).WithMessage(problems)
	}
	return valid
}

// textIn returns a text in an object, "" if there is none.
func textIn(object *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(object.Object, fields...)
	return text
}
