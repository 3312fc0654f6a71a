package plugin

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// The keys beside the choices in the ConfigMap of a driver.
const (
	// CloudConfKey contains options for the driver.
	CloudConfKey = "config"
	// TopologyKey contains whether volumes have a topology.
	TopologyKey = "enable_topology"
)

// specOf returns the spec of the object of an operator as the ConfigMap that would have the same
// effect, so that everything that reads the one reads the other.
func specOf(c *cluster.Cluster, kind choice.Kind) cluster.Object[corev1.ConfigMap] {
	return cluster.Object[corev1.ConfigMap]{
		Informer: cluster.DelayStatus(c.Operator.Informer()), Name: c.Object,
		Read: func() *corev1.ConfigMap {
			spec := c.Spec()
			if spec == nil {
				return nil
			}
			return &corev1.ConfigMap{Data: keysOf(kind, spec)}
		},
	}
}

// keysOf returns the keys of the ConfigMap. The API server has checked the shape of the spec,
// unless its definition is of another release.
func keysOf(kind choice.Kind, spec map[string]any) map[string]string {
	choices := map[string]any{"apiVersion": choice.APIVersion, "kind": string(kind)}
	for _, f := range choice.Fields(kind, reflect.TypeFor[choice.Config]()) {
		if value, found := spec[choice.FieldName(f)]; found {
			choices[choice.FieldName(f)] = value
		}
	}
	text, _ := yaml.Marshal(choices)
	keys := map[string]string{choice.Key: string(text)}
	var typed api.Driver
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &typed); err != nil {
		keys[CloudConfKey] = "[" + err.Error() // is refused, so the last cloud.conf stays
	} else if conf := typed.CloudConf(); conf != "" {
		keys[CloudConfKey] = conf
	}
	return keys
}

// Place returns where the choices are, for messages.
func (c *Choices) Place() string { return c.keyIn(nil, choice.Key).Source }

// KeyOf returns a key beside the choices, and where it is.
func (c *Choices) KeyOf(key string) cluster.Key { return c.keyIn(c.Get(), key) }

func (c *Choices) keyIn(configMap *corev1.ConfigMap, key string) cluster.Key {
	k := cluster.KeyOf(configMap, c.Name, key)
	if !c.inSpec {
		return k
	}
	field := map[string]string{
		CloudConfKey: "spec.blockStorage", TopologyKey: "spec.topology",
	}[key]
	if field == "" {
		field = "spec"
	}
	k.Source = field + " of " + c.Name
	return k
}
