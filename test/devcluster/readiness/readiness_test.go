package readiness_test

import (
	"strings"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

func TestIsOfferedFollowsClusterStorageOperator(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		conditions     string
		optional, want bool
	}{
		{"", true, false},
		{"AAvailable=True", true, true},
		{"AAvailable=True BAvailable=False", true, false},
		{"ADisabled=False", true, true},
		{"ADisabled=True AAvailable=False", true, true},
		{"ADisabled=True", false, false},
	} {
		var list []opv1.OperatorCondition
		for text := range strings.FieldsSeq(test.conditions) {
			name, status, _ := strings.Cut(text, "=")
			list = append(list, opv1.OperatorCondition{Type: name, Status: opv1.ConditionStatus(status)})
		}
		if got := readiness.Of(list).IsOffered(test.optional); got != test.want {
			t.Errorf("%q, optional %v: %v", test.conditions, test.optional, got)
		}
	}
}
