// Package kubeletvolumes copies Secrets and ConfigMaps to files of this machine, as the kubelet
// does for the volumes of a pod. Package cluster calls it for operators that run as processes.
package kubeletvolumes

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// The resources.
const (
	Secrets    = "secrets"
	ConfigMaps = "configmaps"
)

// Volume copies keys of one object to files.
type Volume struct {
	// Resource is Secrets or ConfigMaps.
	Resource, Namespace, Name string
	// Files maps keys to paths. A key that the object does not contain has no file.
	Files map[string]string
}

// Run updates the files until ctx ends. It returns once the objects that exist are on disk. Later
// it calls failed, from any goroutine, if a file cannot be written.
func Run(
	ctx context.Context, client kubernetes.Interface, volumes []Volume, failed func(error),
) error {
	const noResync = time.Duration(0)
	for _, v := range volumes {
		only := func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", v.Name).String()
		}
		factory := informers.NewSharedInformerFactoryWithOptions(client, noResync,
			informers.WithNamespace(v.Namespace), informers.WithTweakListOptions(only))
		informer, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource(v.Resource))
		if err != nil {
			return fmt.Errorf("watching %s: %w", v.Resource, err)
		}
		registration, err := informer.Informer().AddEventHandler(v.handler(failed))
		if err != nil {
			return fmt.Errorf("watching %s %q: %w", v.Resource, v.Name, err)
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("waiting for %s %q: %w", v.Resource, v.Name, context.Cause(ctx))
		}
	}
	return nil
}

// handler keeps the files of a deleted object, as the kubelet does.
func (v Volume) handler(failed func(error)) cache.ResourceEventHandler {
	write := func(object any) {
		for key, path := range v.Files {
			if err := writeKey(object, key, path); err != nil {
				failed(fmt.Errorf("copying key %q of %s %q: %w", key, v.Resource, v.Name, err))
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    write,
		UpdateFunc: func(_, object any) { write(object) },
	}
}

func writeKey(object any, key, path string) error {
	var value []byte
	var found bool
	switch o := object.(type) {
	case *corev1.Secret:
		value, found = o.Data[key]
	case *corev1.ConfigMap:
		var text string
		text, found = o.Data[key]
		value = []byte(text)
	}
	if !found {
		return os.RemoveAll(path)
	}
	return paths.WriteFile(path, value)
}
