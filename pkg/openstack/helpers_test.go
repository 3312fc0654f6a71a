package openstack_test

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

const (
	// patience limits requests that are expected to succeed.
	patience = 2 * time.Minute
	// repetitions is how often a request fails before its message counts as stable.
	repetitions = 20
	typesCall   = "GET /share/v2/types"
)

// fixture is a cloud and the files with its address and credentials.
type fixture struct {
	t     *testing.T
	cloud testcloud.Cloud
	info  simulator.Info
	front string // auth_url of clouds.yaml
	dir   string
	clock *clocktesting.FakePassiveClock // of the clients
}

// newFixture starts a cloud: the real services if they run, the simulator otherwise. It is for
// tests of what the services do. Its credentials are in clouds.yaml.
func newFixture(t *testing.T, config simulator.Config) *fixture {
	t.Helper()
	cloud, err := testcloud.New(withTypes(config))
	check(t, err)
	return start(t, cloud)
}

// newSimulated starts the simulator. It is for tests of answers that a test decides, and for clouds
// that the real services cannot be.
func newSimulated(t *testing.T, config simulator.Config) *fixture {
	t.Helper()
	cloud, err := simulator.New(withTypes(config))
	check(t, err)
	return start(t, cloud)
}

func withTypes(config simulator.Config) simulator.Config {
	if config.ShareTypes == nil {
		config.ShareTypes = []simulator.ShareType{{Name: "gold"}, {Name: "silver"}}
	}
	return config
}

func start(t *testing.T, running testcloud.Cloud) *fixture {
	t.Helper()
	check(t, running.Start(t.Context()))
	t.Cleanup(func() { check(t, running.Close()) })
	s := &fixture{
		t: t, cloud: running, info: running.Info(), front: running.Info().AuthURL,
		dir: t.TempDir(),
	}
	s.clock = clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	s.clouds(simulator.Clouds{})
	return s
}

// clouds writes clouds.yaml with the current credentials of the cloud.
func (s *fixture) clouds(options simulator.Clouds) {
	s.t.Helper()
	text := string(s.cloud.CloudsYAML(options))
	s.write("clouds.yaml", strings.ReplaceAll(text, s.info.AuthURL, s.front))
}

func (s *fixture) path(name string) string { return filepath.Join(s.dir, name) }

func (s *fixture) write(name, text string) {
	s.t.Helper()
	check(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s *fixture) ca() string { return string(s.cloud.CA()) }

// source reads the fixture's files as the Secret.
func (s *fixture) source() openstack.Source {
	return func() (openstack.Access, error) { return s.access(nil) }
}

func (s *fixture) access(trusted []byte) (openstack.Access, error) {
	content := clouds.Content{Name: "Secret operands/credentials", Data: map[string][]byte{}}
	for key, file := range map[string]string{
		clouds.Key: "clouds.yaml", clouds.CAKey: "ca.crt",
	} {
		if text, err := os.ReadFile(s.path(file)); err == nil {
			content.Data[key] = text
		}
	}
	login, err := content.Login()
	if err != nil {
		err = &openstack.Error{Reason: openstack.InvalidCredentials, Message: err.Error()}
	}
	return openstack.Access{Login: login, TrustedCAs: trusted}, err
}

func (s *fixture) client() *openstack.Client { return s.clientOf(s.source()) }

func (s *fixture) clientOf(source openstack.Source) *openstack.Client {
	return openstack.NewClient(source, openstack.NewBackoff(s.clock))
}

// connected returns a client with a session, and resets the counters.
func (s *fixture) connected() *openstack.Client {
	s.t.Helper()
	client := s.client()
	s.wantTypes(client, "gold", "silver")
	s.cloud.ResetLog()
	return client
}

func (s *fixture) fault(fault simulator.Fault) {
	s.t.Helper()
	_, err := s.cloud.SetFault(fault)
	check(s.t, err)
}

// refuse makes a service answer with a status.
func (s *fixture) refuse(service simulator.Service, status int) {
	s.t.Helper()
	s.fault(simulator.Fault{Mode: simulator.Status, Service: service, Status: status})
}

// replyOnce makes a service answer the next requests with bodies, one each.
func (s *fixture) replyOnce(service simulator.Service, bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		s.fault(once(foreign(service, simulator.Answer{Body: body})))
	}
}

func once(fault simulator.Fault) simulator.Fault {
	fault.Times = 1
	return fault
}

func namesOf(types []openstack.Type) []string {
	var names []string
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names
}

// wantTypes expects the cloud to list these share types.
func (s *fixture) wantTypes(client *openstack.Client, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	found, err := client.ShareTypes(ctx)
	check(s.t, err)
	assert.Assert(s.t, is.DeepEqual(want, namesOf(found)), "share types")
}

// wantFailure expects a request to fail, and returns the message.
func (s *fixture) wantFailure(client *openstack.Client, want openstack.Reason) string {
	s.t.Helper()
	return s.attempt(client, shareTypes(), failure{reason: want})
}

// stable expects n equal messages, and returns the message.
func stable(t *testing.T, n int, message func() string) string {
	t.Helper()
	first := message()
	for range n - 1 {
		assert.Assert(t, is.Equal(message(), first), "the message was %q", first)
	}
	return first
}

var (
	// certified matches a time in a certificate, which stays the same.
	certified = regexp.MustCompile(`(?:expired at|but from) \d{4}-\d\d-\d\d \d\d:\d\d UTC`)
	changing  = regexp.MustCompile(`req-|:\d+|127\.0\.0\.1|\d{4}-\d\d-\d\d|0x[0-9a-f]{4}`)
	tokenish  = regexp.MustCompile(`gAAAAA|secret-`)
)

// failure checks the error of a request and returns its message.
func (s *fixture) failure(results int, err error, want openstack.Reason) string {
	s.t.Helper()
	var classified *openstack.Error
	assert.Assert(s.t, errors.As(err, &classified) && results == 0,
		"got %d results and error %v, want an *Error alone", results, err)
	assert.Assert(s.t, is.Equal(classified.Reason, want), err.Error())
	text := err.Error()
	for _, known := range append([]string{s.front, s.info.AuthURL},
		slices.Collect(maps.Values(s.info.Endpoints))...) {
		u, err := url.Parse(known)
		check(s.t, err)
		text = strings.ReplaceAll(text, u.Host, "HOST")
	}
	found := changing.FindString(certified.ReplaceAllString(text, ""))
	assert.Assert(s.t, found == "", "message holds %q, which may change: %v", found, err)
	assert.Assert(s.t, !tokenish.MatchString(text), "message holds a secret: %v", err)
	wantPrintable(s.t, err.Error())
	return err.Error()
}

func (s *fixture) counters() simulator.Counters {
	counters := s.cloud.Counters()
	s.cloud.ResetLog()
	return counters
}

// wantCalls compares the calls since the counters were reset.
func (s *fixture) wantCalls(want map[string]int) {
	s.t.Helper()
	assert.Assert(s.t, is.DeepEqual(want, s.counters().Calls), "calls")
}

func check(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}

func wantFragment(t *testing.T, text, fragment string) {
	t.Helper()
	assert.Check(t, strings.Contains(text, fragment), "message %q lacks %q", text, fragment)
}
