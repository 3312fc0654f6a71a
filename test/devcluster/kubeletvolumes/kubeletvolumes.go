// Package kubeletvolumes copies Secrets and ConfigMaps to files of this machine, as the kubelet
// does for the volumes of a pod. Package cluster calls it for operators that run as processes.
package kubeletvolumes

import (
	"context"
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
	// Folder contains a file for each key, if Files is nil.
	Folder string
}

// Of returns what a volume of a pod in a namespace copies to the folder at which it is mounted:
// nothing if it is neither a Secret nor a ConfigMap, nor a projection of those.
func Of(namespace string, source corev1.VolumeSource, folder string) []Volume {
	volume := func(resource, name string, items []corev1.KeyToPath) Volume {
		v := Volume{Resource: resource, Namespace: namespace, Name: name, Folder: folder}
		for _, item := range items {
			if v.Files == nil {
				v.Files = map[string]string{}
			}
			v.Files[item.Key] = filepath.Join(folder, item.Path)
		}
		return v
	}
	var all []Volume
	if s := source.Secret; s != nil {
		all = append(all, volume(Secrets, s.SecretName, s.Items))
	}
	if c := source.ConfigMap; c != nil {
		all = append(all, volume(ConfigMaps, c.Name, c.Items))
	}
	if source.Projected == nil {
		return all
	}
	for _, p := range source.Projected.Sources {
		if p.Secret != nil {
			all = append(all, volume(Secrets, p.Secret.Name, p.Secret.Items))
		}
		if p.ConfigMap != nil {
			all = append(all, volume(ConfigMaps, p.ConfigMap.Name, p.ConfigMap.Items))
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
		for key, path := range v.files(object) {
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

// files returns the path of each key that the volume copies.
func (v Volume) files(object any) map[string]string {
	if v.Files != nil {
		return v.Files
	}
	files := map[string]string{}
	add := func(key string) { files[key] = filepath.Join(v.Folder, key) }
	switch o := object.(type) {
	case *corev1.Secret:
		for key := range o.Data {
			add(key)
		}
	case *corev1.ConfigMap:
		for key := range o.Data {
			add(key)
		}
	}
	return files
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
