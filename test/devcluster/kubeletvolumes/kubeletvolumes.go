// Package kubeletvolumes copies Secrets and ConfigMaps to files of this machine, as the kubelet
// does for the volumes of a pod. Package cluster calls it for operators that run as processes.
package kubeletvolumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// Volume copies keys of one object to files.
type Volume struct {
	// resource is secrets or configmaps.
	resource, namespace, name, folder string
	// items are the keys and their paths in the folder; without any, each key has a file.
	items []corev1.KeyToPath
}

// Of returns what a volume of a pod in a namespace copies to the folder at which it is mounted:
// nothing if it is neither a Secret nor a ConfigMap, nor a projection of those.
func Of(namespace string, source corev1.VolumeSource, folder string) []Volume {
	var all []Volume
	add := func(resource, name string, items []corev1.KeyToPath) {
		all = append(all, Volume{resource, namespace, name, folder, items})
	}
	if s := source.Secret; s != nil {
		add("secrets", s.SecretName, s.Items)
	}
	if c := source.ConfigMap; c != nil {
		add("configmaps", c.Name, c.Items)
	}
	if source.Projected == nil {
		return all
	}
	for _, p := range source.Projected.Sources {
		if p.Secret != nil {
			add("secrets", p.Secret.Name, p.Secret.Items)
		}
		if p.ConfigMap != nil {
			add("configmaps", p.ConfigMap.Name, p.ConfigMap.Items)
		}
	}
	return all
}

// Run updates the files until ctx ends. It returns once the objects that exist are on disk. Later
// it calls failed, from any goroutine, if a file cannot be written.
func Run(
	ctx context.Context, client kubernetes.Interface, volumes []Volume, failed func(error),
) error {
	const noResync = time.Duration(0)
	for _, v := range volumes {
		only := func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", v.name).String()
		}
		factory := informers.NewSharedInformerFactoryWithOptions(client, noResync,
			informers.WithNamespace(v.namespace), informers.WithTweakListOptions(only))
		informer, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource(v.resource))
		if err != nil {
			return fmt.Errorf("watching %s: %w", v.resource, err)
		}
		registration, err := informer.Informer().AddEventHandler(v.handler(failed))
		if err != nil {
			return fmt.Errorf("watching %s %q: %w", v.resource, v.name, err)
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("waiting for %s %q: %w", v.resource, v.name, context.Cause(ctx))
		}
	}
	return nil
}

// handler keeps the files of a deleted object, as the kubelet does.
func (v Volume) handler(failed func(error)) cache.ResourceEventHandler {
	write := func(object any) {
		if err := v.write(contentOf(object)); err != nil {
			failed(fmt.Errorf("copying %s %q: %w", v.resource, v.name, err))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    write,
		UpdateFunc: func(_, object any) { write(object) },
	}
}

// write writes the files. A key that the object does not contain has none.
func (v Volume) write(content map[string][]byte) error {
	files := map[string]string{} // by key
	for key := range content {
		files[key] = key
	}
	if len(v.items) > 0 {
		clear(files)
	}
	for _, item := range v.items {
		files[item.Key] = item.Path
	}
	var errs []error
	for key, name := range files {
		path := filepath.Join(v.folder, name)
		if value, found := content[key]; found {
			errs = append(errs, paths.WriteFile(path, value))
		} else {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

func contentOf(object any) map[string][]byte {
	switch o := object.(type) {
	case *corev1.Secret:
		return o.Data
	case *corev1.ConfigMap:
		content := map[string][]byte{}
		for key, text := range o.Data {
			content[key] = []byte(text)
		}
		return content
	}
	return nil
}
