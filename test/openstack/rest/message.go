package rest

import (
	"fmt"
	"time"
)

// Reason is why an operation failed: the IDs that Cinder or Manila give to the action and the
// detail.
type Reason struct{ Action, Detail string }

// Message is a user message of Cinder or Manila, which says why an operation failed.
type Message struct {
	Record

	Reason     Reason
	ResourceID string
}

// Messages are the user messages of a service.
type Messages struct {
	Store[*Message]

	// Actions and Details are the texts that the service has for the IDs of a Reason.
	Actions, Details map[string]string
}

// Add adds messages about a record.
func (m *Messages) Add(about *Record, reasons ...Reason) error {
	for _, reason := range reasons {
		if m.Actions[reason.Action] == "" || m.Details[reason.Detail] == "" {
			return fmt.Errorf("the simulator has no text for the message %v", reason)
		}
		m.add(&Message{Reason: reason, ResourceID: about.ID, Record: Record{
			ID: NewID(), UserID: about.UserID, ProjectID: about.ProjectID, Created: time.Now(),
		}})
	}
	return nil
}

// Expires returns the end of a message, after the default lifetime of both services.
func (m *Message) Expires() time.Time {
	const days = 30
	return m.Created.AddDate(0, 0, days)
}
