package cinder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

// The paths in cloud.conf. The manifests of the operands mount these files.
const (
	mountedClouds = "/etc/kubernetes/secret/clouds.yaml"
	mountedCA     = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// write writes the accepted login and cloud-conf, if all their sources are determined. A failed
// write on one side does not block the other. mistake is the error of the administrator's topology.
func (c *configSync) write(
	ctx context.Context, syncCtx factory.SyncContext, user userConfig, t topology, mistake error,
) error {
	accepted, _ := c.credentials.Accepted()
	if accepted == nil {
		return mistake
	}
	var data map[string]string
	if mistake == nil {
		data, mistake = c.content(accepted.Login, user, t)
	}
	if mistake != nil {
		data = c.deployedFor(accepted.Login)
	}
	if data == nil || mistake == nil && t.enabled == nil {
		return mistake
	}
	c.wanted.Store(&data)
	// The Deployment takes over both at once, so the event of this write triggers the next one.
	if !c.loginWritten() {
		return errors.Join(mistake, c.writeLogin(ctx, syncCtx, accepted.Login))
	}
	return errors.Join(mistake, c.writeConf(ctx, syncCtx, data, t))
}

// deployedFor returns the data of the deployed cloud-conf if it fits a login, so that a mistake in
// the administrator's configuration does not keep a new password from the driver.
func (c *configSync) deployedFor(login *clouds.Login) map[string]string {
	existing := c.sources.deployed.Get()
	if existing == nil || existing.Data[bundleKey] != login.CA ||
		!strings.HasPrefix(existing.Data[configKey], optionsOf(login).section()) {
		return nil
	}
	return existing.Data
}

func (c *configSync) writeConf(
	ctx context.Context, syncCtx factory.SyncContext, data map[string]string, t topology,
) error {
	var errs []error
	var before string
	for _, side := range c.sides() {
		cached := c.cloudConf(side)
		existing := cached.Get()
		if contains(existing, data) {
			continue
		}
		namespace := c.cluster.Namespaces.On(side)
		required := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: configMap, Labels: c.cluster.Labels,
			},
			Data: data,
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
	if was := parseBool(before); was != nil && t.enabled != nil && *was != *t.enabled {
		syncCtx.Recorder().Eventf(topologyChanged, "%s of %s changes from %v to %v because of %s",
			topologyKey, configMap, *was, *t.enabled, t.cause)
	}
	return errors.Join(errs...)
}

// contains reports whether the ConfigMap exists and has exactly this content.
func contains(existing *corev1.ConfigMap, data map[string]string) bool {
	return existing != nil && maps.Equal(existing.Data, data) && len(existing.BinaryData) == 0
}

func (c *configSync) content(
	login *clouds.Login, user userConfig, t topology,
) (map[string]string, error) {
	text, err := read(user.config)
	if err != nil {
		return nil, err
	}
	data := map[string]string{topologyKey: strconv.FormatBool(ptr.Deref(t.enabled, false))}
	if login.CA != "" {
		data[bundleKey] = login.CA
	}
	config, err := CloudConf([]byte(text), optionsOf(login))
	if err != nil {
		return nil, unusable(fmt.Errorf("%s %w", user.config.Source, err))
	}
	data[configKey] = string(config)
	return data, nil
}

func optionsOf(login *clouds.Login) Options {
	o := Options{CloudsFile: mountedClouds, Cloud: login.Entry, Insecure: login.Insecure}
	if login.CA != "" {
		o.CAFile = mountedCA
	}
	return o
}
