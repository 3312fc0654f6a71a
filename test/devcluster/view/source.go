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

// Source watches a cluster, and what drivers have of a hosted control plane in
// another.
type Source struct {
	// Drivers to tell of.
	Drivers []Driver
	// Notify is called, from any goroutine, when Snapshot has something new.
	Notify func()

	caches map[schema.GroupVersionResource]cache.Store
	// controlPlanes has the Deployments of namespaces in the management cluster.
	controlPlanes map[string]cache.Store
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

// Start begins to watch, until ctx ends. The management cluster is not asked if
// nothing is hosted.
func (s *Source) Start(ctx context.Context, config, management *rest.Config) error {
	var err error
	s.caches, err = s.watch(ctx, config, "", clusterCSIDrivers(), deployments(), daemonSets(), storageClasses())
	if err != nil {
		return err
	}
	s.controlPlanes = map[string]cache.Store{}
	for _, driver := range s.Drivers {
		namespace := driver.ControlPlaneNamespace
		if _, watched := s.controlPlanes[namespace]; watched || !driver.isHosted() {
			continue
		}
		stores, err := s.watch(ctx, management, namespace, deployments())
		if err != nil {
			return err
		}
		s.controlPlanes[namespace] = stores[deployments()]
	}
	return nil
}

// watch fills stores with objects of a namespace, or of all if it is empty.
func (s *Source) watch(
	ctx context.Context, config *rest.Config, namespace string, resources ...schema.GroupVersionResource,
) (map[schema.GroupVersionResource]cache.Store, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	stores := map[schema.GroupVersionResource]cache.Store{}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Duration(0), namespace, nil)
	for _, resource := range resources {
		informer := factory.ForResource(resource).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.Notify() },
			UpdateFunc: func(any, any) { s.Notify() },
			DeleteFunc: func(any) { s.Notify() },
		})
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		stores[resource] = informer.GetStore()
	}
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watching %s: %w", resource.Resource, context.Cause(ctx))
		}
	}
	return stores, nil
}

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
		if err := readAll(s.caches[resource], read); err != nil {
			return State{}, fmt.Errorf("reading %s: %w", resource.Resource, err)
		}
	}
	if driver.isHosted() {
		if err := readAll(s.controlPlanes[driver.ControlPlaneNamespace], now.readController); err != nil {
			return State{}, fmt.Errorf("reading the management cluster: %w", err)
		}
	}
	now.sort()
	return now, nil
}

func readAll(store cache.Store, read func(*unstructured.Unstructured) error) error {
	for _, item := range store.List() {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("unexpected %T", item)
		}
		if err := read(object); err != nil {
			return fmt.Errorf("decoding %q: %w", object.GetName(), err)
		}
	}
	return nil
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
	if object.GetNamespace() != s.Driver.Namespace {
		return nil
	}
	return s.addDeployment(object, s.Driver.side())
}

func (s *State) readController(object *unstructured.Unstructured) error {
	if object.GetName() != s.Driver.Controller {
		return nil
	}
	return s.addDeployment(object, Management)
}

func (s *State) addDeployment(object *unstructured.Unstructured, side Side) error {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
		return err
	}
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	s.Workloads = append(s.Workloads, Workload{
		Kind: "Deployment", Name: d.Name, Ready: d.Status.ReadyReplicas, Desired: desired, Side: side,
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
		Kind: "DaemonSet", Name: d.Name, Ready: d.Status.NumberReady, Desired: desired, Side: s.Driver.side(),
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
