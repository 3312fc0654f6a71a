package openstack_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// A service answers "401" if no access rule of an application credential permits the request.
func TestRefusedTokenNamesTheAccessRule(t *testing.T) {
	t.Parallel()
	const rules = "If the application credential in the credentials Secret has access rules, they " +
		"must permit "
	for name, test := range map[string]struct {
		service simulator.Service
		auth    simulator.Auth
		send    func(*openstack.Client, context.Context) error
		want    string
	}{
		"Manila": {
			simulator.Share, simulator.ApplicationCredential,
			func(c *openstack.Client, ctx context.Context) error {
				_, err := c.ShareTypes(ctx)
				return err
			}, rules + "GET /v2/types.",
		},
		"Cinder": {
			simulator.Volume, simulator.NamedApplicationCredential,
			func(c *openstack.Client, ctx context.Context) error {
				_, err := c.VolumeTypes(ctx)
				return err
			}, rules + "GET /v3/types.",
		},
		"Nova": {
			simulator.Compute, simulator.ApplicationCredential,
			func(c *openstack.Client, ctx context.Context) error {
				_, err := c.ComputeZones(ctx)
				return err
			}, rules + "GET /v2.1/os-availability-zone.",
		},
		"password": {
			simulator.Share, simulator.Password,
			func(c *openstack.Client, ctx context.Context) error {
				_, err := c.ShareTypes(ctx)
				return err
			}, "Check the project and its roles in the credentials Secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(simulator.Clouds{Auth: test.auth})
			s.fault(simulator.Fault{
				Mode: simulator.Status, Status: http.StatusUnauthorized, Service: test.service,
			})
			client := s.client()
			message := stable(t, 3, func() string {
				return s.failure(0, test.send(client, t.Context()), openstack.AuthenticationFailed)
			})
			wantFragment(t, message, "refused the token (HTTP 401). "+test.want)
		})
	}
}

// The rule contains * in place of IDs, which differ from one request to the next.
func TestAccessRuleContainsNoIDs(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential})
	client, err := s.client().Shares(t.Context())
	check(t, err)
	s.fault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusUnauthorized, Service: simulator.Share,
	})
	id := "7d793037-a076-4186-9ed5-f6b1c2e0a9d3"
	for want, request := range map[string]func() error{
		"GET /v2/shares/detail.": func() error {
			_, err := client.List(t.Context(), "a", "b")
			return err
		},
		"GET /v2/shares/*.": func() error {
			_, _, err := client.Find(t.Context(), id)
			return err
		},
		"POST /v2/shares/*/action.": func() error { return client.Revoke(t.Context(), id, id) },
		"GET /v2/share-access-rules.": func() error {
			_, err := client.Rules(t.Context(), id)
			return err
		},
	} {
		err := request()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), id[:8]) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
