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

// Kind is the kind of the object in a volume.
type Kind string

// The kinds.
const (
	Secret    Kind = "Secret"
	ConfigMap Kind = "ConfigMap"
)

// Volume copies keys of one object to files.
type Volume struct {
	Kind      Kind
	Namespace string
	Name      string
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
		informer := v.informer(factory)
		registration, err := informer.AddEventHandler(v.handler(failed))
		if err != nil {
			return fmt.Errorf("watching %s %q: %w", v.Kind, v.Name, err)
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("waiting for %s %q: %w", v.Kind, v.Name, context.Cause(ctx))
		}
	}
	return nil
}

func (v Volume) informer(f informers.SharedInformerFactory) cache.SharedIndexInformer {
	if v.Kind == Secret {
		return f.Core().V1().Secrets().Informer()
	}
	return f.Core().V1().ConfigMaps().Informer()
}

// handler keeps the files of a deleted object, as the kubelet does.
func (v Volume) handler(failed func(error)) cache.ResourceEventHandler {
	show := func(object any) {
		if err := v.write(contents(object)); err != nil {
			failed(err)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    show,
		UpdateFunc: func(_, object any) { show(object) },
	}
}

func contents(object any) map[string][]byte {
	switch o := object.(type) {
	case *corev1.Secret:
		return o.Data
	case *corev1.ConfigMap:
		all := make(map[string][]byte, len(o.Data))
		for key, value := range o.Data {
			all[key] = []byte(value)
		}
		return all
	}
	return nil
}

func (v Volume) write(data map[string][]byte) error {
	for key, path := range v.Files {
		value, found := data[key]
		write := func() error { return paths.WriteFile(path, value) }
		if !found {
			write = func() error { return os.RemoveAll(path) }
		}
		if err := write(); err != nil {
			return fmt.Errorf("copying key %q of %s %q: %w", key, v.Kind, v.Name, err)
		}
	}
	return nil
}
