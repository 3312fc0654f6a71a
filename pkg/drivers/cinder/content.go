package cinder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
)

// The paths in cloud.conf. The manifests of the operands mount these files.
const (
	mountedClouds = "/etc/kubernetes/secret/clouds.yaml"
	mountedCA     = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// write writes cloud-conf if all its sources are determined. A failed write on one side does not
// block the other.
func (c *configSync) write(
	ctx context.Context, syncCtx factory.SyncContext, user userConfig, t topology,
) error {
	data, err := c.content(user, t.enabled)
	if err != nil || !t.determined {
		return err
	}
	c.wanted.Store(&data)
	var errs []error
	var before string
	for _, side := range c.sides() {
		cached := c.cloudConf(side)
		existing := cached.Get()
		if contains(existing, data) ||
			existing != nil && c.accepted.Holds(c.sources.credentials.Get()) {
			continue
		}
		namespace := c.cluster.Namespaces.On(side)
		required := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMap}, Data: data,
		}
		client := c.cluster.Side(side).Kube.CoreV1()
		_, _, err := resourceapply.ApplyConfigMap(ctx, client, syncCtx.Recorder(), required)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("writing %s: %w", cached.Name, err))
		case existing != nil:
			before = existing.Data[topologyKey]
		}
	}
	if was, err := strconv.ParseBool(before); err == nil && was != t.enabled {
		syncCtx.Recorder().Eventf(topologyChanged, "%s of %s changes from %v to %v because of %s",
			topologyKey, configMap, was, t.enabled, t.cause)
	}
	return errors.Join(errs...)
}

// contains reports whether the ConfigMap exists and has exactly this content.
func contains(existing *corev1.ConfigMap, data map[string]string) bool {
	return existing != nil && maps.Equal(existing.Data, data) && len(existing.BinaryData) == 0
}

func (c *configSync) content(user userConfig, enabled bool) (map[string]string, error) {
	cloud, ca, err := c.sources.access()
	if err != nil {
		return nil, err
	}
	ca = ca.or(user.ca)
	pem, err := ca.readCA()
	if err != nil {
		return nil, err
	}
	text, err := user.config.read()
	if err != nil {
		return nil, err
	}
	data := map[string]string{topologyKey: strconv.FormatBool(enabled)}
	options := Options{CloudsFile: mountedClouds, Cloud: cloud}
	if pem != "" {
		data[bundleKey], options.CAFile = pem, mountedCA
	}
	config, err := CloudConf([]byte(text), options)
	if _, invalid := errors.AsType[*SyntaxError](err); invalid {
		return nil, user.config.unusable(err)
	}
	if err != nil {
		return nil, fmt.Errorf("generating cloud.conf: %w", err)
	}
	data[configKey] = string(config)
	return data, fits(data, ca, user.config)
}

// fits returns an error for data that the API server would reject without naming a source.
func fits(data map[string]string, ca, config text) error {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size <= corev1.MaxSecretSize {
		return nil
	}
	return fmt.Errorf("ConfigMap %s would exceed 1 MiB: %s has %d bytes, %s has %d bytes. "+
		"Shorten them; the driver keeps its present configuration",
		configMap, config.source, len(config.value), ca.source, len(ca.value))
}
