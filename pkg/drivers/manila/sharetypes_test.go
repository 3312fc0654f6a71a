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
	outage := errors.New("odd")
	for _, test := range []struct {
		cloud lister
		want  cloudprobe.Availability
		err   error
	}{
		{lister{types: []string{"b", "a"}}, cloudprobe.Availability{Available: true}, nil},
		{lister{}, cloudprobe.Availability{
			Reason: "NoShareTypes",
			Message: "Manila offers no share types to this project. Ask the cloud's administrator to " +
				"create one, or to make one public; the operator detects the change automatically",
		}, nil},
		{
			lister{err: &openstack.Error{Reason: openstack.NotOffered, Message: "why"}},
			cloudprobe.Availability{Reason: "NoManila", Message: "why"},
			nil,
		},
		{lister{err: outage}, cloudprobe.Availability{}, outage},
	} {
		found, availability, err := listShareTypes(nil, test.cloud.ShareTypes)(t.Context())
		assert.Check(t, is.DeepEqual(typesOf(test.cloud.types), found))
		assert.Check(t, is.DeepEqual(test.want, availability))
		assert.Check(t, is.ErrorIs(err, test.err))
	}
}

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
		found, availability, err := listShareTypes(nil, step.cloud.ShareTypes)(t.Context())
		classes.setShareTypes(cloudprobe.Result[[]openstack.Type]{
			Found: found, Availability: availability, Err: err,
		})
		got := slices.Sorted(maps.Keys(classes.Types()))
		assert.Check(t, is.DeepEqual(step.want, got, cmpopts.EquateEmpty()), "step %d: share types", i)
	}
}
