package operator

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// conditionWriter adds a reason and a message to conditions without them, and makes the message and
// the transition time the same for the same failure. A condition that changes with each attempt
// causes a write with each attempt, and an event that triggers every controller.
type conditionWriter struct {
	v1helpers.OperatorClientWithFinalizers

	mu      sync.Mutex
	written map[string]applyopv1.OperatorConditionApplyConfiguration // by type
}

func newConditionWriter(client v1helpers.OperatorClientWithFinalizers) *conditionWriter {
	return &conditionWriter{
		OperatorClientWithFinalizers: client,
		written:                      map[string]applyopv1.OperatorConditionApplyConfiguration{},
	}
}

func (w *conditionWriter) ApplyOperatorStatus(
	ctx context.Context, fieldManager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if status == nil {
		return w.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, fieldManager, status)
	}
	if isConflict(status) {
		return nil
	}
	for i := range status.Conditions {
		complete(&status.Conditions[i])
		w.restoreTransition(&status.Conditions[i])
	}
	err := w.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, fieldManager, status)
	if err != nil {
		return err
	}
	w.remember(status.Conditions)
	return nil
}

// restoreTransition sets the transition time of the last write of the same condition. library-go
// reads it from the cache. If the cache is older than the last write, library-go would set the
// current time, which causes another write.
func (w *conditionWriter) restoreTransition(c *applyopv1.OperatorConditionApplyConfiguration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.written[ptr.Deref(c.Type, "")]
	if ok && c.LastTransitionTime == nil && ptr.Equal(written.Status, c.Status) {
		c.LastTransitionTime = written.LastTransitionTime
	}
}

// remember stores the conditions, in which library-go has set the transition times.
func (w *conditionWriter) remember(conditions []applyopv1.OperatorConditionApplyConfiguration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conditions {
		w.written[ptr.Deref(c.Type, "")] = c
	}
}

// conflict is the end of the API server's message about an update with an old resource version. A
// condition contains only the text of the error, not its type.
const conflict = "the object has been modified; " +
	"please apply your changes to the latest version and try again"

// isConflict reports whether a status contains nothing but a conflict of two writers, which happens
// in each rollout. The controller retries immediately, so the condition would be a false alarm.
func isConflict(status *applyopv1.OperatorStatusApplyConfiguration) bool {
	return status != nil && len(status.Conditions) == 1 &&
		strings.HasSuffix(ptr.Deref(status.Conditions[0].Type, ""), opv1.OperatorStatusTypeDegraded) &&
		onlyConflicts(ptr.Deref(status.Conditions[0].Message, ""))
}

// onlyConflicts reports whether each line of a message is the error of a conflict. A message about
// several objects contains one line for each, and may end with a newline.
func onlyConflicts(message string) bool {
	for line := range strings.Lines(strings.TrimSpace(message)) {
		if !strings.HasSuffix(strings.TrimSpace(line), conflict) {
			return false
		}
	}
	return strings.TrimSpace(message) != ""
}

// complete sets the reason and a stable message.
func complete(c *applyopv1.OperatorConditionApplyConfiguration) {
	reason, message := "AsExpected", "As expected"
	severity := diagnosis.SeverityOf(ptr.Deref(c.Type, ""), ptr.Deref(c.Status, ""))
	if severity == diagnosis.Problem || severity == diagnosis.Warning {
		reason, message = "Error", "Unknown error; see the operator log"
	}
	c.WithReason(cmp.Or(ptr.Deref(c.Reason, ""), reason)).
		WithMessage(cmp.Or(stableMessage(ptr.Deref(c.Message, "")), message))
}

// applyOptional writes a condition that not each cluster has. nil removes it.
func (d *driver) applyOptional(
	ctx context.Context, manager, conditionType string, c *cluster.Condition,
) error {
	if c != nil {
		return cluster.ApplyConditions(ctx, d.operator, manager, c)
	}
	_, status, _, err := d.operator.GetOperatorState()
	if err != nil || v1helpers.FindOperatorCondition(status.Conditions, conditionType) == nil {
		return err
	}
	return cluster.ApplyConditions(ctx, d.operator, manager)
}

// The parts of a message that differ between two occurrences of an error.
var (
	// localAddress is the local address of a connection, with its ephemeral port.
	localAddress = regexp.MustCompile(`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.%a-z]+\]):\d+->`)
	requestID    = regexp.MustCompile(
		`\s*\(?(?:[Rr]equest[- ][Ii][Dd]:? )?\breq-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)?`)
	timestamp = regexp.MustCompile(
		`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?`)
	resourceVersion = regexp.MustCompile(`(ResourceVersion: )\d+/\d+`)
)

// maxMessage is the size of a message, in bytes, before stableMessage removes parts of it.
const maxMessage = 16 << 10

// hookIndex is the text that library-go adds before the error of a hook.
var hookIndex = regexp.MustCompile(`error running hook function \(index=\d+\): `)

// stableMessage returns the message without the parts that differ between two occurrences, and with
// sorted lines: they are errors of independent objects, in random order. It cuts the message first,
// because an error can quote megabytes of a response.
func stableMessage(message string) string {
	message = guest.Printable(message, maxMessage)
	message = hookIndex.ReplaceAllString(message, "")
	message = localAddress.ReplaceAllString(message, "")
	message = requestID.ReplaceAllString(message, "")
	message = timestamp.ReplaceAllString(message, "(time)")
	message = resourceVersion.ReplaceAllString(message, "${1}(changed)")
	lines := strings.Split(strings.TrimSpace(message), "\n")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}
