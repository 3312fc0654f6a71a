package cluster

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// Joined joins at most limit parts of a message.
func Joined(parts []string, limit int, separator string) string {
	if more := len(parts) - limit; more > 0 {
		parts = append(parts[:limit:limit], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, separator)
}

// CompleteStatus adds a reason and a message to conditions without them, and makes the message the
// same for the same failure. A condition that changes with each attempt causes a write with each
// attempt, and an event that triggers every controller. It returns false for a status not to write.
func CompleteStatus(status *applyopv1.OperatorStatusApplyConfiguration) bool {
	if isConflict(status) {
		return false
	}
	for i := range status.Conditions {
		complete(&status.Conditions[i])
	}
	return true
}

// conflict is the end of the API server's message about an update with an old resource version. A
// condition contains only the text of the error, not its type.
const conflict = "the object has been modified; " +
	"please apply your changes to the latest version and try again"

// isConflict reports whether a status contains nothing but a conflict of two writers, which happens
// in each rollout. The controller retries immediately, so the condition would be a false alarm.
func isConflict(status *applyopv1.OperatorStatusApplyConfiguration) bool {
	return len(status.Conditions) == 1 &&
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

// The parts of a message that differ between two occurrences of an error.
var (
	// localAddress is the local address of a connection, with its ephemeral port.
	localAddress = regexp.MustCompile(`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.%a-z]+\]):\d+->`)
	requestID    = regexp.MustCompile(
		`\s*\(?(?:[Rr]equest[- ][Ii][Dd]:? )?\breq-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)?`)
	timestamp = regexp.MustCompile(
		`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?`)
	resourceVersion = regexp.MustCompile(`(ResourceVersion: )\d+/\d+`)
	// hookIndex is the text that library-go adds before the error of a hook.
	hookIndex = regexp.MustCompile(`error running hook function \(index=\d+\): `)
)

// maxUnstable is the size of a message, in bytes, before stableMessage removes parts of it.
const maxUnstable = 16 << 10

// stableMessage returns a short message without the parts that differ between two occurrences. It
// cuts the message first, because an error can quote megabytes of a response.
func stableMessage(message string) string {
	message = guest.Printable(message, maxUnstable)
	message = hookIndex.ReplaceAllString(message, "")
	message = localAddress.ReplaceAllString(message, "")
	message = requestID.ReplaceAllString(message, "")
	message = timestamp.ReplaceAllString(message, "(time)")
	message = resourceVersion.ReplaceAllString(message, "${1}(changed)")
	return guest.Printable(strings.TrimSpace(message), guest.MaxMessage)
}
