package sharedfilesystems

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
)

// Access returns what a client with that address may do with a share, "rw", "ro" or "", by the
// access rules of type ip that the backend has, and whether the share exists.
func (s *Service) Access(shareID string, client netip.Addr) (level string, found bool) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	share, err := s.shares.Find(shareID)
	if err != nil {
		return "", false
	}
	return share.Level(client), true
}

// actOnShare performs an action on a share. Below microversion 2.7 names of actions begin with os-.
func (s *Service) actOnShare(r *rest.Request) (rest.Answer, error) {
	action, err := r.Action()
	if err != nil {
		return rest.Answer{}, err
	}
	name, old := strings.CutPrefix(action, "os-")
	if old == r.Version.AtLeast(7) {
		return rest.Answer{}, r.Unsupported()
	}
	switch name {
	case "allow_access":
		return s.allow(r, action)
	case "deny_access":
		return s.deny(r, action)
	case "access_list":
		if r.Version.AtLeast(45) {
			return rest.Answer{}, r.Unsupported()
		}
		return s.listRules(r, r.PathValue("id"))
	case "extend":
		return s.extend(r, action)
	case "soft_delete", "restore":
		return s.recycle(r, name == "soft_delete")
	}
	return rest.Answer{}, rest.BadRequest("There is no such action: %s", action)
}

// allow adds an access rule; API reference: Grant access.
func (s *Service) allow(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		Type  string `json:"access_type"`
		To    string `json:"access_to"`
		Level string `json:"access_level"`
		// Metadata exist since 2.45.
		Metadata map[string]string `json:"metadata"`
	}
	if err := r.Decode(action, &wanted); err != nil {
		return rest.Answer{}, err
	}
	share, err := s.share(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	rule := &sharestate.Rule{
		ID: rest.NewID(), Type: wanted.Type, To: wanted.To, Level: cmp.Or(wanted.Level, "rw"),
		Created: time.Now(),
	}
	if r.Version.AtLeast(45) {
		rule.Metadata = wanted.Metadata
	}
	if rule.Type == "ip" && strings.Contains(rule.To, ":") && !r.Version.AtLeast(38) {
		return rest.Answer{}, rest.BadRequest("Expected 4 octets in '%s'", rule.To)
	}
	if err := share.Allow(share.state(), rule); err != nil {
		return rest.Answer{}, answered(err)
	}
	s.complete(r, share, rule)
	description := describeRule(r, share, rule)
	description["share_id"] = share.ID
	return rest.Answer{Content: map[string]any{"access": description}}, nil
}

// complete begins what the backend does for a rule. A later request about the rule replaces it.
func (s *Service) complete(r *rest.Request, share *Share, rule *sharestate.Rule) {
	state := rule.State
	s.config.Worker.Start(r.Outcome, nil, func(err error) {
		if rule.State == state {
			share.CompleteRule(rule, err != nil, time.Now())
		}
	})
}

func answered(err error) error {
	refusal, ok := errors.AsType[*sharestate.RefusedError](err)
	if !ok {
		return err
	}
	return &rest.Error{Status: refusal.Status, Message: refusal.Message}
}

// deny removes an access rule; API reference: Revoke access.
func (s *Service) deny(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		ID string `json:"access_id"`
	}
	if err := r.Decode(action, &wanted); err != nil {
		return rest.Answer{}, err
	}
	share, err := s.share(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	rule, err := share.Deny(share.state(), wanted.ID)
	if err != nil {
		return rest.Answer{}, answered(err)
	}
	s.complete(r, share, rule)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// listRulesOfShare answers with the access rules of the share in the query, since 2.45.
func (s *Service) listRulesOfShare(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(45) {
		return rest.Answer{}, r.Unsupported()
	}
	id := r.URL.Query().Get("share_id")
	if id == "" {
		return rest.Answer{}, rest.BadRequest("The field 'share_id' has to be specified.")
	}
	answer, err := s.listRules(r, id)
	if err != nil {
		err = rest.BadRequest("Share %s not found.", id)
	}
	return answer, err
}

func (s *Service) listRules(r *rest.Request, shareID string) (rest.Answer, error) {
	share, err := s.share(shareID)
	if err != nil {
		return rest.Answer{}, err
	}
	list := []any{}
	for _, rule := range share.Rules {
		list = append(list, describeRule(r, share, rule))
	}
	return rest.Answer{Content: map[string]any{"access_list": list}}, nil
}

// describeRule returns an access rule with the fields of the microversion; API reference: Describe
// share access rule. Below 2.28 the state is that of all rules of the share.
func describeRule(r *rest.Request, share *Share, rule *sharestate.Rule) map[string]any {
	description := map[string]any{
		"id": rule.ID, "access_level": rule.Level, "access_to": rule.To, "access_type": rule.Type,
		"state": rule.State,
	}
	if !r.Version.AtLeast(28) {
		description["state"] = rulesStatus(r, share)
		if description["state"] == "out_of_sync" {
			description["state"] = "new"
		}
	}
	if r.Version.AtLeast(21) {
		description["access_key"] = nil
	}
	if r.Version.AtLeast(33) {
		description["created_at"] = rest.Time(rule.Created)
		description["updated_at"] = rest.Time(rule.Updated)
	}
	if r.Version.AtLeast(45) {
		description["metadata"] = rest.Metadata(rule.Metadata)
	}
	return description
}

// rulesStatus returns the state of all access rules of a share. It had another name below 2.28.
func rulesStatus(r *rest.Request, share *Share) string {
	status := share.RulesStatus(share.Status)
	if status == "syncing" && !r.Version.AtLeast(28) {
		return "out_of_sync"
	}
	return status
}
