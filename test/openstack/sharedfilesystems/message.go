package sharedfilesystems

import (
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// SetStatus changes the status of a share or a snapshot, as an administrator or a manager does, and
// adds messages to a share that say why.
func (s *Service) SetStatus(shareID, status string, reasons ...rest.Reason) error {
	if s.setSnapshot(shareID, status) {
		return nil
	}
	return s.change(shareID, func(share *Share) error {
		share.Set(status)
		return s.messages.Add(share.Base(), reasons...)
	})
}

func (s *Service) setSnapshot(id, status string) (found bool) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	snapshot, err := s.snapshots.Find(id)
	if err == nil {
		snapshot.Set(status)
	}
	return err == nil
}

// SetCopies changes the statuses of the replicas and migration copies of a share.
func (s *Service) SetCopies(shareID string, copies ...string) error {
	return s.change(shareID, func(share *Share) error {
		share.Copies = copies
		return nil
	})
}

func (s *Service) change(shareID string, change func(*Share) error) error {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	share, err := s.shares.Find(shareID)
	if err != nil {
		return err
	}
	return change(share)
}

// newMessages returns the messages of Manila; manila/message/message_field.py has more of them.
func (s *Service) newMessages() *rest.Messages {
	m := &rest.Messages{
		Actions: map[string]string{
			"001": "allocate host", "002": "create", "007": "delete", "008": "extend",
		},
		Details: map[string]string{
			"001": "An unknown error occurred.",
			"002": "No storage could be allocated for this share request. Trying again with a different " +
				"size or share type may succeed.",
			"009": "No storage could be allocated for this share request, Capacity filter didn't succeed.",
			"015": "Share Driver failed to extend share, The share status has been set to " +
				"extending_error. This action cannot be re-attempted until the status has been rectified. " +
				"Contact your administrator to determine the cause of this failure.",
		},
	}
	m.Store = rest.Store[*rest.Message]{
		Worker: s.config.Worker, Name: "message", Links: "messages_links",
		Describe: func(r *rest.Request, one *rest.Message) map[string]any {
			return map[string]any{
				"id": one.ID, "project_id": one.ProjectID, "action_id": one.Reason.Action,
				"detail_id": one.Reason.Detail, "message_level": "ERROR",
				"created_at": rest.Time(one.Created), "expires_at": rest.Time(one.Expires()),
				"request_id": nil, "links": r.Links("messages", one.ID), "resource_type": "SHARE",
				"resource_id":  one.ResourceID,
				"user_message": m.Actions[one.Reason.Action] + ": " + m.Details[one.Reason.Detail],
			}
		},
		Keep: func(r *rest.Request, one *rest.Message) bool {
			return r.Matches("resource_id", one.ResourceID)
		},
	}
	return m
}

// listMessages answers with messages; API reference: List user messages.
func (s *Service) listMessages(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(37) {
		return rest.Answer{}, rest.NotFound("")
	}
	return s.messages.List(r)
}
