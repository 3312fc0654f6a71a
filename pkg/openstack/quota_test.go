package openstack_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/services"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const limitsCall = "GET /share/v2/limits"

// quotas are requests for quotas, and one for messages, by their paths.
func quotas() map[string]func(*openstack.Client, context.Context) ([]openstack.Quota, error) {
	return map[string]func(*openstack.Client, context.Context) ([]openstack.Quota, error){
		"/volume/v3/os-quota-sets": (*openstack.Client).VolumeQuotas,
		"/share/v2/limits":         (*openstack.Client).ShareQuotas,
		"/share/v2/quota-sets":     (*openstack.Client).ShareUserQuotas,
		"/volume/v3/messages": func(c *openstack.Client, ctx context.Context) ([]openstack.Quota, error) {
			_, err := c.Messages(ctx, openstack.Cinder(), map[string]bool{"a": true})
			return nil, err
		},
	}
}

// optionals are all requests that nothing depends on by their paths. Those about errors ask for
// another status each time.
func optionals() map[string]func(*openstack.Client, context.Context) (int, error) {
	all := map[string]func(*openstack.Client, context.Context) (int, error){}
	for path, request := range quotas() {
		all[path] = counted(request)
	}
	asked := 0
	all["/volume/v3/volumes/detail"] = func(c *openstack.Client, ctx context.Context) (int, error) {
		asked++
		statuses := openstack.VolumeErrors()
		found, err := c.VolumesInError(ctx, statuses[asked%len(statuses)])
		return len(found), err
	}
	all["/share/v2/shares/detail"] = func(c *openstack.Client, ctx context.Context) (int, error) {
		asked++
		statuses := openstack.ShareErrors()
		found, err := c.SharesInError(ctx, statuses[asked%len(statuses)])
		return len(found), err
	}
	return all
}

// asked returns a client that has used both services.
func (s *fixture) asked() *openstack.Client {
	s.t.Helper()
	client := s.client()
	_, err := client.VolumeZones(s.t.Context())
	check(s.t, err)
	s.wantTypes(client, "gold", "silver")
	s.cloud.ResetLog()
	return client
}

func TestQuotasWithALimitAreRead(t *testing.T) {
	t.Parallel()
	limits := func(more ...simulator.Quota) []simulator.Quota {
		return append(more, simulator.Quota{Resource: "snapshots", Limit: 0})
	}
	s := newFixture(t, simulator.Config{
		VolumeQuotas: limits(simulator.Quota{Resource: "volumes", Limit: -1},
			simulator.Quota{Resource: "gigabytes", Limit: 1000},
			simulator.Quota{Resource: "gigabytes___DEFAULT__", Limit: 100}),
		ShareQuotas: limits(simulator.Quota{Resource: "shares", Limit: -1},
			simulator.Quota{Resource: "gigabytes", Limit: 500},
			simulator.Quota{Resource: "snapshot_gigabytes", Limit: -1},
			simulator.Quota{Resource: "gigabytes", ShareType: "gold", Limit: 300},
			simulator.Quota{Resource: "gigabytes", User: true, Limit: 400}),
	})
	client, ctx := s.asked(), t.Context()
	volumes, err := client.VolumeQuotas(ctx)
	check(t, err)
	assert.Check(t, is.DeepEqual([]openstack.Quota{
		{Resource: "gigabytes", Limit: 1000},
		{Resource: "gigabytes___DEFAULT__", Limit: 100},
		{Resource: "snapshots"},
	}, of(volumes, "gigabytes", "gigabytes___DEFAULT__", "snapshots", "volumes")))
	shares, errShares := client.ShareQuotas(ctx)
	user, errUser := client.ShareUserQuotas(ctx)
	gold, errGold := client.ShareTypeQuotas(ctx, "gold")
	_, errOther := client.ShareTypeQuotas(ctx, "other & more")
	for _, err := range []error{errShares, errUser, errGold} {
		check(t, err)
	}
	assert.Check(t, is.DeepEqual([]openstack.Quota{
		{Resource: "gigabytes", Limit: 500}, {Resource: "snapshots"},
	}, shares))
	for limit, all := range map[int][]openstack.Quota{400: user, 300: gold} {
		assert.Check(t, is.DeepEqual([]openstack.Quota{{Resource: "gigabytes", Limit: limit}},
			of(all, "gigabytes", "shares")))
	}
	assert.Check(t, is.Equal(openstack.ReasonOf(errOther), openstack.Forbidden))
	wantFragment(t, errOther.Error(), "does not show quotas to this login (HTTP 404)")
}

// of returns the quotas of some resources. The services have limits of others by default.
func of(all []openstack.Quota, resources ...string) (some []openstack.Quota) {
	for _, q := range all {
		for _, name := range resources {
			if q.Resource == name {
				some = append(some, q)
			}
		}
	}
	return some
}

func TestUseIncludesReservationsAndOthers(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{VolumeQuotas: []simulator.Quota{
		{Resource: "gigabytes", Limit: 1000, Others: 700, Reserved: 50},
	}})
	found, err := s.asked().VolumeQuotas(t.Context())
	check(t, err)
	assert.Check(t, is.DeepEqual([]openstack.Quota{{Resource: "gigabytes", Limit: 1000, Used: 750}},
		found))
}

// The access rules of the credential permit everything but an optional request. Its token expires
// again and again.
func TestRefusedOptionalRequestsNeverHarmTheLogin(t *testing.T) {
	t.Parallel()
	for path, request := range optionals() {
		s := newFixture(t, simulator.Config{TokenTTL: services.BriefTTL})
		client := s.asked()
		s.fault(simulator.Fault{
			Mode: simulator.Status, PathPrefix: path, Status: http.StatusUnauthorized,
		})
		for renewals := range 3 {
			for range 3 {
				_, err := request(client, t.Context())
				assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
			}
			asked := 0
			for call, count := range s.counters().Calls {
				assert.Check(t, call[:len("GET "+path)] == "GET "+path, "%s was sent", call)
				asked += count
			}
			assert.Check(t, is.Equal(asked, map[bool]int{true: 1}[renewals < 2]), "%s: %d", path, renewals)
			check(t, s.cloud.ExpireTokens(t.Context()))
			s.wantTypes(client, "gold", "silver")
			s.wantCalls(map[string]int{loginCall: 1, typesCall: 2})
		}
		check(t, s.cloud.ClearFaults())
		_, err := request(client, t.Context())
		assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed), "it is off")
		s.cloud.RotateCredentials(simulator.Rotation{})
		s.clouds(simulator.Clouds{})
		_, err = client.VolumeZones(t.Context())
		check(t, err)
		s.wantTypes(client, "gold", "silver")
		_, err = request(client, t.Context())
		assert.Check(t, err, "with other credentials")
	}
}

// A service refuses each token once, and answers the next one.
func TestOptionalRequestContinuesAfterAnAnswer(t *testing.T) {
	t.Parallel()
	for path, request := range optionals() {
		s := newSimulated(t, simulator.Config{})
		client := s.asked()
		for range 3 {
			s.fault(once(simulator.Fault{
				Mode: simulator.Status, PathPrefix: path, Status: http.StatusUnauthorized,
			}))
			_, err := request(client, t.Context())
			assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed), path)
			check(t, s.cloud.ExpireTokens(t.Context()))
			s.wantTypes(client, "gold", "silver")
			_, err = request(client, t.Context())
			assert.Check(t, err, path)
		}
	}
}

// The first answer to a new token decides whether it is of use. That of an optional request does
// not count.
func TestRefusedQuotasDoNotBlockRenewals(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.asked()
	s.fault(simulator.Fault{
		Mode: simulator.Status, PathPrefix: "/share/v2/limits", Status: http.StatusUnauthorized,
	})
	s.fault(once(simulator.Fault{
		Mode: simulator.Slow, PathPrefix: "/share/v2/types", Delay: 300 * time.Millisecond,
	}))
	for range 3 {
		check(t, s.cloud.ExpireTokens(t.Context()))
		_, err := client.ShareQuotas(t.Context())
		assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
		s.wantTypes(client, "gold", "silver")
		assert.Check(t, is.Equal(s.counters().Calls[loginCall], 1), "logins")
	}
}

func TestOptionalRequestThatFailsIsOneError(t *testing.T) {
	t.Parallel()
	for path, request := range optionals() {
		for name, test := range map[string]struct {
			fault simulator.Fault
			want  openstack.Reason
			calls int
		}{
			"403":      {status(http.StatusForbidden), openstack.Forbidden, 1},
			"404":      {status(http.StatusNotFound), openstack.Forbidden, 1},
			"503":      {status(http.StatusServiceUnavailable), openstack.CloudUnreachable, 2},
			"garbage":  {mode(simulator.Garbage), openstack.CloudUnreachable, 2},
			"reset":    {mode(simulator.Reset), openstack.CloudUnreachable, 3}, // net/http repeats one
			"no quota": {foreign("", simulator.Answer{Body: `{"a": 1}`}), openstack.CloudUnreachable, 2},
			"null":     {foreign("", simulator.Answer{Body: `null`}), openstack.CloudUnreachable, 2},
		} {
			s := newSimulated(t, simulator.Config{})
			client := s.asked()
			test.fault.PathPrefix = path
			s.fault(test.fault)
			for range 2 {
				found, err := request(client, t.Context())
				s.failure(found, err, test.want)
			}
			sent := 0
			for _, count := range s.counters().Calls {
				sent += count
			}
			assert.Check(t, is.Equal(sent, test.calls), "%s of %s", name, path)
			s.unchanged(client)
		}
	}
}

// Values that are no numbers count as no limit.
func TestQuotasOfStrangeServersAreIgnored(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.asked()
	s.replyOnce(simulator.Volume, `{"quota_set": {"id": "x", "volumes": {"limit": "9", "in_use": 1},
		"gigabytes": {"limit": 9, "in_use": -3}, "snapshots": {"limit": null}, "backups": []}}`)
	found, err := client.VolumeQuotas(t.Context())
	check(t, err)
	assert.Check(t, is.DeepEqual([]openstack.Quota{{Resource: "gigabytes", Limit: 9}}, found))
	s.replyOnce(simulator.Share, `{"limits": {"absolute": {"maxTotalShares": true}}}`)
	found, err = client.ShareQuotas(t.Context())
	assert.Check(t, err == nil && len(found) == 0, "%v, %v", found, err)
}

// A request that nothing depends on is no reason for a login.
func TestOptionalRequestsAreNotSentWithoutASession(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	for _, request := range optionals() {
		client := s.client()
		_, err := request(client, t.Context())
		wantFragment(t, err.Error(), "has answered no other request yet")
	}
	s.wantCalls(map[string]int{})
	client := s.connected()
	s.cloud.RemoveFromCatalog("sharev2")
	_, err := client.ShareQuotas(t.Context())
	check(t, err)
	s.wantCalls(map[string]int{limitsCall: 1})
}
