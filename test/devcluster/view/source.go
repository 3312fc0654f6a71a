package view

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
)

// Source watches a cluster.
type Source struct {
	// Drivers to tell of.
	Drivers []Driver

	caches  map[schema.GroupVersionResource]cache.Store
	changed chan struct{}
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return opv1.GroupVersion.WithResource("clustercsidrivers")
}

func deployments() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("deployments")
}

func daemonSets() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

func storageClasses() schema.GroupVersionResource {
	return storagev1.SchemeGroupVersion.WithResource("storageclasses")
}

// Start begins to watch, until ctx ends.
func (s *Source) Start(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	s.changed = make(chan struct{}, 1)
	s.caches = map[schema.GroupVersionResource]cache.Store{}
	notify := func() {
		select {
		case s.changed <- struct{}{}:
		default: // a change is announced already
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, time.Duration(0))
	for _, resource := range []schema.GroupVersionResource{clusterCSIDrivers(), deployments(), daemonSets(), storageClasses()} {
		informer := factory.ForResource(resource).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		s.caches[resource] = informer.GetStore()
	}
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watching %s: %w", resource.Resource, context.Cause(ctx))
		}
	}
	return nil
}

// Changed announces that Snapshot has something new.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Snapshot is the state as of now, in the order of the drivers.
func (s *Source) Snapshot() (Snapshot, error) {
	now := make(Snapshot, 0, len(s.Drivers))
	for _, driver := range s.Drivers {
		state, err := s.state(driver)
		if err != nil {
			return nil, err
		}
		now = append(now, state)
	}
	return now, nil
}

func (s *Source) state(driver Driver) (State, error) {
	now := State{Driver: driver}
	readers := map[schema.GroupVersionResource]func(*unstructured.Unstructured) error{
		clusterCSIDrivers(): now.readDriver,
		deployments():       now.readDeployment,
		daemonSets():        now.readDaemonSet,
		storageClasses():    now.readClass,
	}
	for resource, read := range readers {
		for _, item := range s.caches[resource].List() {
			object, ok := item.(*unstructured.Unstructured)
			if !ok {
				return State{}, fmt.Errorf("reading %s: unexpected %T", resource.Resource, item)
			}
			if err := read(object); err != nil {
				return State{}, fmt.Errorf("reading %s %q: %w", resource.Resource, object.GetName(), err)
			}
		}
	}
	now.sort()
	return now, nil
}

func (s *State) readDriver(object *unstructured.Unstructured) error {
	var driver opv1.ClusterCSIDriver
	if object.GetName() != s.Driver.Name {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &driver); err != nil {
		return err
	}
	for _, c := range driver.Status.Conditions {
		s.Conditions = append(s.Conditions, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
		})
	}
	return nil
}

func (s *State) readDeployment(object *unstructured.Unstructured) error {
	var d appsv1.Deployment
	if object.GetNamespace() != s.Driver.Namespace {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
		return err
	}
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	s.Workloads = append(s.Workloads, Workload{
		Kind: "Deployment", Name: d.Name, Ready: d.Status.ReadyReplicas, Desired: desired,
		RolledOut: d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == desired &&
			d.Status.UpdatedReplicas == desired && d.Status.AvailableReplicas == desired,
	})
	return nil
}

func (s *State) readDaemonSet(object *unstructured.Unstructured) error {
	var d appsv1.DaemonSet
	if object.GetNamespace() != s.Driver.Namespace {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
		return err
	}
	desired := d.Status.DesiredNumberScheduled
	s.Workloads = append(s.Workloads, Workload{
		Kind: "DaemonSet", Name: d.Name, Ready: d.Status.NumberReady, Desired: desired,
		RolledOut: d.Status.ObservedGeneration >= d.Generation && desired > 0 &&
			d.Status.UpdatedNumberScheduled == desired && d.Status.NumberAvailable == desired,
	})
	return nil
}

func (s *State) readClass(object *unstructured.Unstructured) error {
	var class storagev1.StorageClass
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &class); err != nil {
		return err
	}
	if class.Provisioner == s.Driver.Name {
		s.Classes = append(s.Classes, Class{Name: class.Name, ShareType: class.Parameters["type"]})
	}
	return nil
}
