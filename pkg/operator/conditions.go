package operator

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// conditionWriter writes conditions that have a reason and a message, and whose message and transition time are the same for
// the same failure. A condition that changes at each attempt is a write at each attempt, and an event that wakes every controller.
type conditionWriter struct {
	v1helpers.OperatorClientWithFinalizers

	mu      sync.Mutex
	written map[string]applyopv1.OperatorConditionApplyConfiguration // by type
}

func newConditionWriter(client v1helpers.OperatorClientWithFinalizers) *conditionWriter {
	return &conditionWriter{OperatorClientWithFinalizers: client, written: map[string]applyopv1.OperatorConditionApplyConfiguration{}}
}

// ApplyOperatorStatus applies the status with its conditions made presentable.
func (w *conditionWriter) ApplyOperatorStatus(ctx context.Context, fieldManager string, status *applyopv1.OperatorStatusApplyConfiguration) error {
	if status == nil {
		return w.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, fieldManager, status)
	}
	if isConflict(status) {
		return nil
	}
	for i := range status.Conditions {
		presentable(&status.Conditions[i])
		w.restoreTransition(&status.Conditions[i])
	}
	if err := w.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, fieldManager, status); err != nil {
		return err
	}
	w.remember(status.Conditions)
	return nil
}

// restoreTransition sets the transition time that was written with the same condition before. library-go takes the time from its
// cache. With a cache that is older than the last write it would set the present time, which makes another version of the object.
func (w *conditionWriter) restoreTransition(c *applyopv1.OperatorConditionApplyConfiguration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if written, ok := w.written[ptr.Deref(c.Type, "")]; ok && c.LastTransitionTime == nil && ptr.Equal(written.Status, c.Status) {
		c.LastTransitionTime = written.LastTransitionTime
	}
}

// remember keeps conditions as library-go completed them: it sets their transition times in place.
func (w *conditionWriter) remember(conditions []applyopv1.OperatorConditionApplyConfiguration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conditions {
		w.written[ptr.Deref(c.Type, "")] = c
	}
}

// conflict ends the message of the API server's refusal of an update that another one has overtaken. A condition has only the
// text of the error.
const conflict = "the object has been modified; please apply your changes to the latest version and try again"

// isConflict tells whether a status says no more than that two wrote an object at the same time, which happens in each rollout.
// The controller tries again at once, so that a condition would be a false alarm of a second.
func isConflict(status *applyopv1.OperatorStatusApplyConfiguration) bool {
	return status != nil && len(status.Conditions) == 1 &&
		strings.HasSuffix(ptr.Deref(status.Conditions[0].Type, ""), opv1.OperatorStatusTypeDegraded) &&
		onlyConflicts(ptr.Deref(status.Conditions[0].Message, ""))
}

// onlyConflicts tells whether each line of a message is the error of a conflict. A message of several objects has a line for each
// and may end in a newline.
func onlyConflicts(message string) bool {
	for line := range strings.Lines(strings.TrimSpace(message)) {
		if !strings.HasSuffix(strings.TrimSpace(line), conflict) {
			return false
		}
	}
	return strings.TrimSpace(message) != ""
}

func presentable(c *applyopv1.OperatorConditionApplyConfiguration) {
	wrong := isWrong(ptr.Deref(c.Type, ""), ptr.Deref(c.Status, ""))
	if ptr.Deref(c.Reason, "") == "" {
		c.Reason = ptr.To("AsExpected")
		if wrong {
			c.Reason = ptr.To("Error")
		}
	}
	message := stable(ptr.Deref(c.Message, ""))
	if message == "" {
		message = "As expected"
		if wrong {
			message = "Unknown error; see the operator log"
		}
	}
	c.Message = &message
}

// isWrong tells whether a condition speaks of a fault. Progress is none, and neither is its end.
func isWrong(conditionType string, status opv1.ConditionStatus) bool {
	switch {
	case strings.HasSuffix(conditionType, opv1.OperatorStatusTypeDegraded):
		return status != opv1.ConditionFalse
	case strings.HasSuffix(conditionType, opv1.OperatorStatusTypeProgressing):
		return status == opv1.ConditionUnknown
	}
	return status != opv1.ConditionTrue
}

// What differs from one occurrence of an error to the next.
var (
	// localEnd is the local end of a connection, with its ephemeral port.
	localEnd        = regexp.MustCompile(`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.%a-z]+\]):\d+->`)
	requestID       = regexp.MustCompile(`\s*\(?(?:[Rr]equest[- ][Ii][Dd]:? )?\breq-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)?`)
	timestamp       = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?`)
	resourceVersion = regexp.MustCompile(`(ResourceVersion: )\d+/\d+`)
)

// hookIndex is what library-go puts before the error of a hook. It says nothing to who reads the condition.
var hookIndex = regexp.MustCompile(`error running hook function \(index=\d+\): `)

// stable returns the message without what changes from one occurrence to the next, and its lines sorted: they are errors of
// independent objects, collected in any order.
func stable(message string) string {
	message = hookIndex.ReplaceAllString(message, "")
	message = localEnd.ReplaceAllString(message, "")
	message = requestID.ReplaceAllString(message, "")
	message = timestamp.ReplaceAllString(message, "(time)")
	message = resourceVersion.ReplaceAllString(message, "${1}(changed)")
	lines := strings.Split(strings.TrimSpace(message), "\n")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}
