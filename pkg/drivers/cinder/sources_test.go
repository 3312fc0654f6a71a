package cinder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
)

func TestUserConfig(t *testing.T) {
	t.Parallel()
	const config, other = "[BlockStorage]\na = 1\n", "[BlockStorage]\na = 2\n"
	own := func(data map[string]string) runtime.Object { return userObject(userConfigMap, data) }
	installed := userObject("kube-cloud", map[string]string{"my.conf": other, bundleKey: "CA", "config": "not this"})
	reference := infrastructureWith("kube-cloud", "my.conf")
	for name, test := range map[string]struct {
		objects      []runtime.Object
		config       runtime.Object
		want         userConfig
		wantTopology string
	}{
		"nothing at all":            {nil, nil, userConfig{}, ""},
		"config alone (1.11-11)":    {[]runtime.Object{own(map[string]string{userConfigKey: config})}, nil, userConfig{config: text{value: config}}, ""},
		"topology alone (1.11-11)":  {[]runtime.Object{own(map[string]string{userTopologyKey: "false"})}, nil, userConfig{}, "false"},
		"both":                      {[]runtime.Object{own(map[string]string{userConfigKey: config, userTopologyKey: "true"})}, nil, userConfig{config: text{value: config}}, "true"},
		"neither":                   {[]runtime.Object{own(map[string]string{"foreign": config})}, nil, userConfig{}, ""},
		"as installed (56)":         {[]runtime.Object{installed}, reference, userConfig{config: text{value: other}, ca: text{value: "CA"}}, ""},
		"own before installed":      {[]runtime.Object{installed, own(map[string]string{userConfigKey: config})}, reference, userConfig{config: text{value: config}, ca: text{value: "CA"}}, ""},
		"own topology, installed":   {[]runtime.Object{installed, own(map[string]string{userTopologyKey: "true"})}, reference, userConfig{config: text{value: other}, ca: text{value: "CA"}}, "true"},
		"installed, no such key":    {[]runtime.Object{installed}, infrastructureWith("kube-cloud", "other.conf"), userConfig{ca: text{value: "CA"}}, ""},
		"installed, key unnamed":    {[]runtime.Object{installed}, infrastructureWith("kube-cloud", ""), userConfig{ca: text{value: "CA"}}, ""},
		"installed, no ConfigMap":   {nil, reference, userConfig{}, ""},
		"installed with no config":  {[]runtime.Object{installed}, infrastructureWith("", ""), userConfig{}, ""},
		"installed, other's object": {[]runtime.Object{manilasCopy()}, infrastructureWith("cloud-provider-config", "config"), userConfig{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := clustertest.Seed{Guest: test.objects}
			if test.config != nil {
				seed.Config = []runtime.Object{test.config}
			}
			got, err := newBench(t, seed).config.sources.user()
			if err != nil {
				t.Fatal(err)
			}
			if got.topology.value != test.wantTopology || got.config.value != test.want.config.value || got.ca.value != test.want.ca.value {
				t.Errorf("got %+v, want %+v with topology %q", got, test.want, test.wantTopology)
			}
		})
	}
}

// manilasCopy is what the storage operator makes for Manila in the namespace of the operands.
func manilasCopy() *corev1.ConfigMap {
	copied := userObject("cloud-provider-config", map[string]string{"config": "[BlockStorage]\na = 3\n", bundleKey: "Manila's"})
	copied.Namespace = cluster.DefaultNamespace
	return copied
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	b := newBench(t, clustertest.Seed{
		Guest:  []runtime.Object{userObject("kube-cloud", map[string]string{"my.conf": "[BlockStorage]"})},
		Config: []runtime.Object{infrastructureWith("kube-cloud", "my.conf")},
	})
	place := func() [2]string {
		user, err := b.config.sources.user()
		if err != nil {
			t.Fatal(err)
		}
		return [2]string{user.config.place, user.topology.place}
	}
	want := [2]string{"key my.conf of ConfigMap openshift-config/kube-cloud", "key enable_topology of ConfigMap openshift-config/cinder-csi-config"}
	if diff := cmp.Diff(want, place()); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	b.put(t, map[string]string{userConfigKey: "[BlockStorage]"})
	want[0] = "key config of ConfigMap openshift-config/cinder-csi-config"
	if diff := cmp.Diff(want, place()); diff != "" {
		t.Errorf("places with the driver's own ConfigMap (-want +got):\n%s", diff)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct{ topology, given, wrong bool }{
		"":          {},
		" \n":       {},
		"true":      {topology: true, given: true},
		"True":      {topology: true, given: true},
		" true\n":   {topology: true, given: true},
		"false":     {given: true},
		"false ":    {given: true},
		"FALSE":     {given: true},
		"maybe":     {wrong: true},
		"yes":       {wrong: true},
		"1":         {wrong: true},
		"truefalse": {wrong: true},
	} {
		topology, given, err := userConfig{topology: text{value, "key k of ConfigMap n/m"}}.override()
		if topology != want.topology || given != want.given || (err != nil) != want.wrong {
			t.Errorf("%q: got %v, %v, %v, want %+v", value, topology, given, err, want)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "key k of ConfigMap n/m ") || strings.Contains(err.Error(), value) && value != "1") {
			t.Errorf("%q: the error is to name the place and not the value: %v", value, err)
		}
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	const place = "key clouds.yaml of Secret openshift-cluster-csi-drivers/openstack-cloud-credentials "
	for name, test := range map[string]struct {
		secret    map[string]string
		cloud, ca string
		wantErr   string
	}{
		"usual":              {map[string]string{cloudsKey: clouds("openstack")}, "openstack", "", ""},
		"with a CA":          {map[string]string{cloudsKey: clouds("openstack"), caKey: "CA"}, "openstack", "CA", ""},
		"another name":       {map[string]string{cloudsKey: clouds("my-cloud")}, "my-cloud", "", ""},
		"missing":            {nil, "", "", "Secret openshift-cluster-csi-drivers/openstack-cloud-credentials is missing: "},
		"missing key":        {map[string]string{"other": password}, "", "", place + "has no entry clouds.openstack"},
		"empty":              {map[string]string{cloudsKey: ""}, "", "", place + "has no entry clouds.openstack"},
		"no YAML":            {map[string]string{cloudsKey: "clouds:\n\t" + password}, "", "", place + "is not valid YAML"},
		"other YAML":         {map[string]string{cloudsKey: "clouds: [" + password + "]"}, "", "", place + "is not valid YAML"},
		"lacks its password": {map[string]string{cloudsKey: strings.ReplaceAll(clouds("openstack"), "password", "passwort")}, "", "", place + "lacks in clouds.openstack.auth: password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seed clustertest.Seed
			if test.secret != nil {
				seed.Guest = []runtime.Object{credentials(cluster.DefaultNamespace, test.secret)}
			}
			cloud, ca, err := newBench(t, seed).config.sources.access()
			if test.wantErr == "" {
				if err != nil || cloud != test.cloud || ca != test.ca {
					t.Errorf("got %q, %q, %v, want %q, %q", cloud, ca, err, test.cloud, test.ca)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.wantErr) {
				t.Fatalf("got %v, want %q...", err, test.wantErr)
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "keystone.example") {
				t.Errorf("the error quotes the Secret: %v", err)
			}
		})
	}
}
