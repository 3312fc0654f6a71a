package blockstorage

import (
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// SetStatus changes the status of a volume or snapshot, as an administrator or a manager does, and
// adds messages that say why.
func (s *Service) SetStatus(volumeID, status string, reasons ...rest.Reason) error {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	if snapshot, err := s.snapshots.Find(volumeID); err == nil {
		snapshot.Set(status)
		return s.messages.Add(snapshot.Base(), reasons...)
	}
	volume, err := s.volumes.Find(volumeID)
	if err != nil {
		return err
	}
	volume.Set(status)
	return s.messages.Add(volume.Base(), reasons...)
}

// newMessages returns the messages of Cinder; cinder/message/message_field.py has more of them.
func (s *Service) newMessages() *rest.Messages {
	m := &rest.Messages{
		Actions: map[string]string{
			"001": "schedule allocate volume", "007": "extend volume",
			"008": "create volume from backend storage",
		},
		Details: map[string]string{
			"001": "An unknown error occurred.",
			"003": "Could not find any available weighted backend.",
			"010": "Volume Driver failed to extend volume.",
			"012": "Driver failed to create the volume.",
		},
	}
	m.Store = rest.Store[*rest.Message]{
		Worker: s.config.Worker, Name: "message", Links: "messages_links", Missing: missing("Message"),
		Describe: func(r *rest.Request, one *rest.Message) map[string]any {
			return map[string]any{
				"id": one.ID, "event_id": "VOLUME_VOLUME_" + one.Reason.Action + "_" + one.Reason.Detail,
				"user_message":  m.Actions[one.Reason.Action] + ":" + m.Details[one.Reason.Detail],
				"message_level": "ERROR", "created_at": rest.Time(one.Created),
				"guaranteed_until": rest.Time(one.Expires()), "request_id": nil,
				"links": r.Links("messages", one.ID), "resource_type": "VOLUME",
				"resource_uuid": one.ResourceID,
			}
		},
		Keep: func(r *rest.Request, one *rest.Message) bool {
			return !r.Version.AtLeast(5) || r.Matches("resource_uuid", one.ResourceID)
		},
	}
	return m
}

// listMessages answers with messages, with filters since 3.5; API reference: List messages.
func (s *Service) listMessages(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(3) {
		return rest.Answer{}, rest.NotFound("")
	}
	return filtered(s.messages.List, "resource_uuid")(r)
}
