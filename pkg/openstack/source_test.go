package openstack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestUnmountedSecretIsRead(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	good := s.cloud.CloudsYAML(simulator.Clouds{})
	const name = "Secret operands/credentials"
	var data map[string][]byte
	var failure error
	client := s.clientOf(openstack.Source{
		CloudsFile: s.path("not-there.yaml"),
		CAFiles:    []string{s.path("not-there.pem")},
		Secret: func() (openstack.Secret, error) {
			return openstack.Secret{Name: name, Data: data},
				failure
		},
	})
	for _, step := range []struct {
		data    map[string][]byte
		failure error
		reason  openstack.Reason
		want    string
	}{
		{reason: openstack.InvalidCredentials, want: name + " has no key clouds.yaml. Fix it"},
		{
			data: map[string][]byte{"x": nil, "a b": nil}, reason: openstack.InvalidCredentials,
			want: "its keys are (a name that is not printed), x",
		},
		{
			failure: errors.New(name + " is missing"), reason: openstack.InvalidCredentials,
			want: name + " is missing",
		},
		{
			data: map[string][]byte{"clouds.yaml": nil}, reason: openstack.InvalidCredentials,
			want: "key clouds.yaml of " + name + " is empty",
		},
		{
			data: map[string][]byte{"clouds.yaml": good}, reason: openstack.CloudUnreachable,
			want: "unknown authority",
		},
		{
			data:   map[string][]byte{"clouds.yaml": good, "cacert": []byte("no PEM")},
			reason: openstack.InvalidCredentials, want: "key cacert of " + name +
				" contains no PEM certificate",
		},
		{data: map[string][]byte{"clouds.yaml": good, "cacert": []byte(s.ca())}},
	} {
		data, failure = step.data, step.failure
		if step.want == "" {
			s.wantTypes(client, "gold", "silver")
			s.wantTypes(client, "gold", "silver")
			continue
		}
		wantFragment(t, s.wantFailure(client, step.reason), step.want)
	}
}

// The trusted CA bundle is used in addition to all other CAs, and its changes are detected.
func TestTrustedCABundleIsTrusted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	s.clouds(simulator.Clouds{})
	var trusted []byte
	source := s.source()
	source.TrustedCAs = func() []byte { return trusted }
	client := s.clientOf(source)
	wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "trustedCA of Proxy/cluster")
	trusted = []byte("# from the network operator\n" + s.ca())
	s.wantTypes(client, "gold", "silver")
	s.counters()
	s.unchanged(client)
	stranger := newSimulated(t, simulator.Config{TLS: true})
	s.write("ca.crt", stranger.ca())
	s.wantTypes(client, "gold", "silver")
	trusted = []byte("no PEM")
	s.wantFailure(client, openstack.CloudUnreachable)
}

// The message contains the reason, and reading a file is bounded.
func TestUnreadableFilesAreExplained(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clouds, ca string
		want       string
	}{
		"missing": {
			clouds: "/nowhere/clouds.yaml",
			want:   "/nowhere/clouds.yaml does not exist. Create the credentials Secret with key",
		},
		"directory": {clouds: "/", want: "/ cannot be read: it is a directory"},
		"device": {
			clouds: "/dev/zero",
			want:   "/dev/zero cannot be read: it is not a regular file",
		},
		"CA is a directory": {ca: "/", want: "/ cannot be read: it is a directory"},
		"CA is a device": {
			ca:   "/dev/zero",
			want: "/dev/zero cannot be read: it is not a regular file",
		},
		"larger than Secret": {clouds: "HUGE", want: "is larger than 1024 KiB"},
		"CA larger":          {ca: "HUGE", want: "is larger than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.clouds(simulator.Clouds{})
			s.write("huge", strings.Repeat("#\n", 1<<20))
			source := s.source()
			if test.clouds != "" {
				source.CloudsFile = strings.Replace(test.clouds, "HUGE", s.path("huge"), 1)
			}
			if test.ca != "" {
				source.CAFiles = []string{strings.Replace(test.ca, "HUGE", s.path("huge"), 1)}
			}
			wantFragment(t, s.wantFailure(s.clientOf(source), openstack.InvalidCredentials), test.want)
		})
	}
}

// cacert may be any path of the operator's file system.
func TestCACertMayNotNameADevice(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{CACert: "/dev/zero"})
	s.wantTypes(s.client(), "gold", "silver")
}
