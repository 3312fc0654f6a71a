package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// reasonMissingFields is of an event of the Deployment: Kubernetes drops fields that we need.
const reasonMissingFields = "MissingFields"

// neededFields returns the fields without which an operation does not work, by kind. They are not
// in all releases of the CSI-Addons for Ceph. It contains no field that only this project has.
func neededFields() map[string][]string {
	return map[string][]string{
		"CSIAddonsNode": {"status.capabilities", "status.networkFenceClientStatus"},
		"NetworkFence":  {"spec.networkFenceClassName"},
	}
}

// report sends an event about fields that Kubernetes drops, once in the life of a process.
func (p *preflight) report(ctx context.Context) error {
	if p.reported {
		return nil
	}
	fields, errFields := p.missingFields()
	deployment := &appsv1.Deployment{}
	name := client.ObjectKey{Namespace: p.settings.Namespace, Name: DeploymentName}
	err := errors.Join(errFields, client.IgnoreNotFound(p.client.Get(ctx, name, deployment)))
	if err != nil {
		return err
	}
	p.reported = true
	if len(fields) == 0 {
		return nil
	}
	text := "CustomResourceDefinitions of another program lack the fields: " +
		strings.Join(fields, ", ")
	log.FromContext(ctx).Info(text, "reason", reasonMissingFields)
	if deployment.Name != "" {
		p.events.Eventf(deployment, nil, corev1.EventTypeWarning, reasonMissingFields, "Start",
			"%.900s", text)
	}
	return nil
}

// missingFields returns the fields that the CustomResourceDefinitions lack, as `kind field`. All
// users may read the schemas of the API server.
func (p *preflight) missingFields() ([]string, error) {
	document, err := p.schemas(v1alpha1.GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("reading the schemas of CSI-Addons: %w", err)
	}
	schemas, _, _ := unstructured.NestedMap(document, "components", "schemas")
	var missing []string
	needed := neededFields()
	for name, found := range schemas {
		kind := name[strings.LastIndex(name, ".")+1:]
		for _, path := range needed[kind] {
			fields := strings.Split("properties."+strings.ReplaceAll(path, ".", ".properties."), ".")
			properties, _ := found.(map[string]any)
			if _, has, _ := unstructured.NestedFieldNoCopy(properties, fields...); !has {
				missing = append(missing, kind+" "+path)
			}
		}
		delete(needed, kind)
	}
	if len(needed) > 0 { // the API server publishes a new kind some time after it serves it
		return nil, errors.New("the API server does not publish the schemas of CSI-Addons yet")
	}
	slices.Sort(missing)
	return missing, nil
}
