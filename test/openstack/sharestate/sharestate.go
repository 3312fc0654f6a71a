// Package sharestate contains what Manila decides about the access rules of a share: which states
// refuse a request, with status and message, and how the states change. The simulator of Manila and
// the cloud of package sharecloud call it, so that both refuse the same. It has no clock and no
// HTTP.
//
// The facts are those of manila/common/constants.py, manila/api/v1/shares.py, manila/share/api.py
// and manila/share/access.py in the release Zed. Tests with the real services compare the lists.
package sharestate

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"
)

// The statuses of a share that tests name.
const (
	Available     = "available"
	Deleting      = "deleting"
	ErrorDeleting = "error_deleting"
	Extending     = "extending"
	Migrating     = "migrating"
	Reverting     = "reverting"
	Failed        = "error"
)

// The states of an access rule.
const (
	QueuedToApply = "queued_to_apply"
	QueuedToDeny  = "queued_to_deny"
	Applying      = "applying"
	Denying       = "denying"
	Active        = "active"
)

// syncing is the state of all access rules of a share while some wait or are in progress.
const syncing = "syncing"

// RuleStates returns all states of an access rule, in the order of Manila.
func RuleStates() []string {
	return []string{QueuedToApply, QueuedToDeny, Applying, Denying, Active, Failed, "deleted"}
}

// Transitional returns the statuses of a share that end without a request.
func Transitional() []string {
	return []string{
		"creating", Deleting, "manage_starting", "unmanage_starting", Extending, "shrinking", Migrating,
		"migrating_to", "restoring", Reverting, "server_migrating", "server_migrating_to",
	}
}

// RefusingRules returns the statuses with which Manila refuses requests about access rules.
func RefusingRules() []string { return append(Transitional(), Failed) }

// Deletable returns the statuses of a share that a user may delete.
func Deletable() []string { return []string{Available, Failed, "inactive"} }

// RefusedError is an error answer of Manila.
type RefusedError struct {
	Status  int
	Message string
}

// Error returns the message.
func (r *RefusedError) Error() string { return r.Message }

func refuse(status int, format string, values ...any) error {
	return &RefusedError{Status: status, Message: fmt.Sprintf(format, values...)}
}

// CheckMetadata returns the error of metadata that Manila does not accept.
func CheckMetadata(metadata map[string]string) error {
	const maxKey, maxValue = 255, 1023
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		problem := ""
		switch value := metadata[key]; {
		case key == "":
			problem = "key is blank"
		case utf8.RuneCountInString(key) > maxKey:
			problem = fmt.Sprintf("key is greater than %d characters", maxKey)
		case value == "":
			problem = "value is blank"
		case utf8.RuneCountInString(value) > maxValue:
			problem = fmt.Sprintf("value is greater than %d characters", maxValue)
		}
		if problem != "" {
			return refuse(http.StatusBadRequest, "Metadata property %s.", problem)
		}
	}
	return nil
}
