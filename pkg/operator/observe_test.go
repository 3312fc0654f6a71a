package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"
	configlisters "github.com/openshift/client-go/config/listers/config/v1"
)

func TestCustomTLSProfilesAreCompleted(t *testing.T) {
	t.Parallel()
	intermediate := configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
	standard := configv1.TLSProfileSpec{MinTLSVersion: intermediate.MinTLSVersion, Ciphers: intermediate.Ciphers}
	ciphers := []string{"ECDHE-RSA-AES128-GCM-SHA256"}
	tests := map[string]struct{ given, want configv1.TLSProfileSpec }{
		"complete":        {configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS11", Ciphers: ciphers}, configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS11", Ciphers: ciphers}},
		"no version":      {configv1.TLSProfileSpec{Ciphers: ciphers}, configv1.TLSProfileSpec{MinTLSVersion: standard.MinTLSVersion, Ciphers: ciphers}},
		"no ciphers":      {configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS13"}, configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS13", Ciphers: standard.Ciphers}},
		"unknown ciphers": {configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS12", Ciphers: []string{"ROT13"}}, standard},
		"nothing":         {configv1.TLSProfileSpec{}, standard},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
			given.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{
				Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{TLSProfileSpec: tt.given},
			}
			cached := given.DeepCopy()
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			if err := store.Add(cached); err != nil {
				t.Fatal(err)
			}
			got, err := completeProfiles{configlisters.NewAPIServerLister(store)}.Get("cluster")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Spec.TLSSecurityProfile.Custom.TLSProfileSpec); diff != "" {
				t.Errorf("the profile differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(given, cached); diff != "" {
				t.Errorf("the cached object was changed:\n%s", diff)
			}
		})
	}
}
