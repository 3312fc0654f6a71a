package manila

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// lister always returns the same share types.
type lister struct {
	types []string
	err   error
}

func (l lister) ShareTypes(context.Context) ([]openstack.Type, error) {
	return typesOf(l.types), l.err
}

func typesOf(names []string) []openstack.Type {
	var types []openstack.Type
	for _, name := range names {
		types = append(types, openstack.Type{Name: name})
	}
	return types
}

func TestShareTypesDecideAvailability(t *testing.T) {
	t.Parallel()
	failed := func(reason openstack.Reason) error {
		return &openstack.Error{Reason: reason, Message: "why"}
	}
	for _, test := range []struct {
		name            string
		cloud           lister
		available       bool
		reason, message string
		failed          bool
		found           []string
	}{
		{
			name: "share types", cloud: lister{types: []string{"b", "a"}}, available: true,
			found: []string{"b", "a"},
		},
		{
			name: "no share types", reason: "NoShareTypes",
			message: "Manila offers no share types to this project. Ask the cloud's administrator to " +
				"create one, or to make one public; the operator detects the change automatically",
		},
		{
			name: "no Manila", cloud: lister{err: failed(openstack.NotOffered)}, reason: "NoManila",
			message: "why",
		},
		{
			name: "unreachable", cloud: lister{err: failed(openstack.CloudUnreachable)}, failed: true,
			reason: "CloudUnreachable", message: "why",
		},
		{
			name: "refused", cloud: lister{err: failed(openstack.AuthenticationFailed)}, failed: true,
			reason: "AuthenticationFailed", message: "why",
		},
		{
			name: "malformed", cloud: lister{err: failed(openstack.InvalidCredentials)}, failed: true,
			reason: "InvalidCredentials", message: "why",
		},
		{
			name: "anything else", cloud: lister{err: errors.New("odd")}, failed: true,
			reason: "CloudUnreachable", message: "odd",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found, availability, err := listShareTypes(test.cloud.ShareTypes)(t.Context())
			assert.Check(t, is.DeepEqual(typesOf(test.found), found), "share types")
			reason, message := availability.Reason, availability.Message
			if err != nil {
				reason, message = string(openstack.ReasonOf(err)), err.Error()
			}
			if availability.Available != test.available || (err != nil) != test.failed ||
				reason != test.reason || message != test.message {
				t.Errorf("got %+v, %v", availability, err)
			}
		})
	}
}

// TestFailedProbeKeepsShareTypes also covers a cloud without Manila; only a list replaces a list.
func TestFailedProbeKeepsShareTypes(t *testing.T) {
	t.Parallel()
	_, s := dependencies(t)
	classes := newClasses(s)
	for i, step := range []struct {
		cloud lister
		want  []string
	}{
		{lister{types: []string{"b", "a"}}, []string{"a", "b"}},
		{lister{err: errors.New("odd")}, []string{"a", "b"}},
		{lister{err: &openstack.Error{Reason: openstack.NotOffered, Message: "why"}}, []string{"a", "b"}},
		{lister{}, nil},
	} {
		found, availability, err := listShareTypes(step.cloud.ShareTypes)(t.Context())
		classes.setShareTypes(cloudprobe.Result[[]openstack.Type]{
			Found: found, Availability: availability, Err: err,
		})
		got := slices.Sorted(maps.Keys(classes.Types()))
		assert.Check(t, is.DeepEqual(step.want, got, cmpopts.EquateEmpty()), "step %d: share types", i)
	}
}
