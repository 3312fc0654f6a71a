package readiness_test

import (
	"strings"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

func TestSummarizeFollowsClusterStorageOperator(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		conditions string
		optional   bool
		want       readiness.Summary
	}{
		{"", true, readiness.Summary{Progressing: true}},
		{"AAvailable=True AProgressing=False", true, readiness.Summary{Available: true}},
		{
			"AAvailable=True BAvailable=False AProgressing=True BProgressing=False", true,
			readiness.Summary{Progressing: true},
		},
		{
			"AAvailable=True AProgressing=False ADegraded=False BDegraded=True", true,
			readiness.Summary{Available: true, Degraded: true},
		},
		{"ADisabled=False", true, readiness.Summary{Available: true}},
		{"ADisabled=True", false, readiness.Summary{Progressing: true}},
		{
			"ADisabled=True AAvailable=False AProgressing=True", true,
			readiness.Summary{Available: true, Progressing: true},
		},
	} {
		var list []opv1.OperatorCondition
		for text := range strings.FieldsSeq(test.conditions) {
			name, status, _ := strings.Cut(text, "=")
			list = append(list, opv1.OperatorCondition{Type: name, Status: opv1.ConditionStatus(status)})
		}
		if got := readiness.Of(list).Summarize(test.optional); got != test.want {
			t.Errorf("%q, optional %v: %+v, want %+v", test.conditions, test.optional, got, test.want)
		}
	}
}
