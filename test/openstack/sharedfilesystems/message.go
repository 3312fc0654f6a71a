//go:build linux

package sharedfilesystems

import (
	"errors"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Message is the record of a message that tells a user why an operation failed.
type Message struct {
	ID, ProjectID            string
	ResourceType, ResourceID string
	ActionID, DetailID, Text string
	Created                  time.Time
}

// lifetime is how long a message exists.
const lifetime = 30 * 24 * time.Hour

// addMessage adds a message about an operation that began in that status. The IDs are those of
// Manila's "User messages": drivers read them.
func (s *Service) addMessage(
	projectID, resourceType, resourceID, status string, failure error,
) error {
	message := Message{
		ID: newID(), ProjectID: projectID, ResourceType: resourceType, ResourceID: resourceID,
		Created: s.config.Now(), ActionID: "002", DetailID: "001",
		Text: "create: An unknown error occurred.",
	}
	switch {
	case errors.Is(failure, errNetwork):
		message.DetailID = "003"
		message.Text = "create: Driver does not expect share-network to be provided with current " +
			"configuration."
	case errors.Is(failure, errDataLoss):
		message.ActionID, message.DetailID = "009", "018"
		message.Text = "shrink: The share contains more data than fits into the size."
	case status == creating && resourceType == "SHARE":
		message.ActionID, message.DetailID = "001", "002"
		message.Text = "allocate host: No storage could be allocated for this share request. Trying " +
			"again with a different size or share type may succeed."
	case status == creatingFromSnapshot:
		message.DetailID = "017"
		message.Text = "create: The driver could not create the share from the snapshot."
	case status == extending:
		message.ActionID, message.DetailID = "008", "015"
		message.Text = "extend: The driver could not extend the share."
	case status == shrinking:
		message.ActionID, message.DetailID = "009", "019"
		message.Text = "shrink: The driver could not shrink the share."
	case status == deleting:
		message.ActionID, message.Text = "007", "delete: An unknown error occurred."
	case status == available:
		message.ActionID, message.DetailID = "010", "021"
		message.Text = "update access rules: The driver could not grant access to the client."
	}
	return s.messages.Put(message.ID, message)
}

// listMessages answers with the messages of a page, newest first.
func (s *Service) listMessages(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(37) {
		return rest.Answer{}, r.Unsupported()
	}
	messages := rest.Filter(s.messages.List(), func(message Message) bool {
		return r.Matches("resource_id", message.ResourceID) &&
			r.Matches("resource_type", message.ResourceType) &&
			r.Matches("action_id", message.ActionID) && r.Matches("detail_id", message.DetailID) &&
			r.Matches("message_level", "ERROR")
	})
	return rest.Collection[Message]{
		Name: "messages", Links: "messages_links",
		ID:       func(message Message) string { return message.ID },
		Created:  func(message Message) time.Time { return message.Created },
		Describe: func(message Message) map[string]any { return describeMessage(r, message) },
	}.Answer(r, messages)
}

// describeMessage returns a message; API reference: Show user message.
func describeMessage(r *rest.Request, message Message) map[string]any {
	return map[string]any{
		"id": message.ID, "project_id": message.ProjectID, "action_id": message.ActionID,
		"detail_id": message.DetailID, "message_level": "ERROR",
		"created_at": rest.Time(message.Created), "request_id": nil,
		"expires_at": rest.Time(message.Created.Add(lifetime)),
		"links":      r.Links("messages", message.ID), "resource_type": message.ResourceType,
		"resource_id": message.ResourceID, "user_message": message.Text,
	}
}
