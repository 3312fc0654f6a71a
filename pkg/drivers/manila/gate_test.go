package manila

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// lister answers once and for all.
type lister struct {
	types []string
	err   error
}

func (l lister) ShareTypes(context.Context) ([]string, error) { return l.types, l.err }

func TestGate(t *testing.T) {
	t.Parallel()
	failed := func(reason openstack.Reason) error { return &openstack.Error{Reason: reason, Message: "why"} }
	for _, test := range []struct {
		name            string
		cloud           lister
		open            bool
		reason, message string
		unknown         bool
		heard           [][]string
	}{
		{name: "share types", cloud: lister{types: []string{"b", "a"}}, open: true, heard: [][]string{{"b", "a"}}},
		{
			name: "no share types", reason: "NoShareTypes", heard: [][]string{nil},
			message: "Manila offers no share types to this project. Ask the cloud's administrator to create one, or to make one public; the operator detects the change automatically",
		},
		{name: "no Manila", cloud: lister{err: failed(openstack.NotOffered)}, reason: "NoManila", message: "why"},
		{name: "unreachable", cloud: lister{err: failed(openstack.CloudUnreachable)}, unknown: true, reason: "CloudUnreachable", message: "why"},
		{name: "refused", cloud: lister{err: failed(openstack.AuthenticationFailed)}, unknown: true, reason: "AuthenticationFailed", message: "why"},
		{name: "malformed", cloud: lister{err: failed(openstack.InvalidCredentials)}, unknown: true, reason: "InvalidCredentials", message: "why"},
		{name: "anything else", cloud: lister{err: errors.New("odd")}, unknown: true, reason: "CloudUnreachable", message: "odd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var heard [][]string
			g := &gate{cloud: test.cloud, listed: func(types []string) { heard = append(heard, types) }}
			verdict, err := g.Check(t.Context())
			if diff := cmp.Diff(test.heard, heard); diff != "" {
				t.Errorf("lists (-want +got):\n%s", diff)
			}
			reason, message := verdict.Reason, verdict.Message
			if unknown := new(plugin.UnknownError); errors.As(err, &unknown) {
				reason, message = unknown.Reason, unknown.Message
			}
			if verdict.Open != test.open || (err != nil) != test.unknown || reason != test.reason || message != test.message {
				t.Errorf("got %+v, %v", verdict, err)
			}
		})
	}
}

func TestGateName(t *testing.T) {
	t.Parallel()
	if got := (&gate{}).Name(); got != "Manila" {
		t.Errorf("conditions would be called %sController...", got)
	}
}
