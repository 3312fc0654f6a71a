package openstack_test

import (
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/budget"
)

// FuzzCA searches for a bundle of CAs that costs too much.
func FuzzCA(f *testing.F) {
	const size = 1 << 20
	for _, text := range []string{
		budget.Repeated("", "-----BEGIN CERTIFICATE-----\n", size),
		budget.Repeated("", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", size),
		budget.Repeated("", "-----BEGIN X-----\na:b\n\nMA==\n-----END X-----\n", size),
		budget.Repeated("-----BEGIN CERTIFICATE-----\n", "a#: b\n", size),
		budget.Repeated("-----BEGIN CERTIFICATE-----\n", "MIIB", size) + "\n-----END CERTIFICATE-----",
		budget.Repeated("", "-", size), budget.Repeated("", "\xff", size),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		budget.Check(t, func() {
			_, _ = openstack.Content{
				Name: "Secret", CA: text, Data: map[string][]byte{"clouds.yaml": []byte(cloudsText)},
			}.Login()
		})
	})
}
