package sharedfilesystems

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states of access rules that the simulator uses.
const (
	queuedToApply = "queued_to_apply"
	queuedToDeny  = "queued_to_deny"
	active        = "active"
)

// Rule is an access rule of a share.
type Rule struct {
	ID, Type, To, Level, State string
	Metadata                   map[string]string
	Created, Updated           time.Time
}

// Access returns what a client with that address may do with a share, "rw", "ro" or "", by the
// active access rules of type ip, and whether the share exists. The rule with the smallest network
// decides. If rules of several levels contain the client, backends choose differently, so nothing
// may depend on that.
func (s *Service) Access(shareID string, client netip.Addr) (level string, found bool) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	share, err := s.shares.Find(shareID)
	if err != nil {
		return "", false
	}
	bits := -1
	for _, rule := range share.Rules {
		allowed, err := network(rule.To)
		if rule.Type != "ip" || rule.State != active || err != nil || !allowed.Contains(client.Unmap()) {
			continue
		}
		if allowed.Bits() > bits {
			level, bits = rule.Level, allowed.Bits()
		}
	}
	return level, true
}

// network parses an address or a network without host bits.
func network(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err == nil && network.Masked() != network {
		err = errors.New(text + " has host bits set")
	}
	return network, err
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
	rule := &Rule{
		ID: rest.NewID(), Type: wanted.Type, To: wanted.To, Level: cmp.Or(wanted.Level, "rw"),
		State: queuedToApply, Created: time.Now(),
	}
	if r.Version.AtLeast(45) {
		rule.Metadata = wanted.Metadata
	}
	if err := canAllow(r, share, rule); err != nil {
		return rest.Answer{}, err
	}
	share.Rules = append(share.Rules, rule)
	s.config.Worker.Start(r.Outcome, nil, func(err error) {
		switch {
		case err != nil:
			rule.State = rest.Failed
		case rule.State == queuedToApply:
			rule.State, rule.Updated = active, time.Now()
		}
	})
	description := describeRule(r, share, rule)
	description["share_id"] = share.ID
	return rest.Answer{Content: map[string]any{"access": description}}, nil
}

// canAllow returns the error of Manila if an access rule is invalid or exists already. Manila
// compares networks (_check_for_existing_access in manila/db/sqlalchemy/api.py).
func canAllow(r *rest.Request, share *Share, rule *Rule) error {
	switch rule.Type {
	case "ip":
		allowed, err := network(rule.To)
		if err == nil && allowed.Addr().Is6() && !r.Version.AtLeast(38) {
			err = errors.New("Expected 4 octets in '" + rule.To + "'")
		}
		if err != nil {
			return rest.BadRequest("%s", err)
		}
	case "user", "cert":
	default:
		return rest.BadRequest("Only 'ip', 'user', 'cert' or 'cephx' access types are supported.")
	}
	exists := slices.ContainsFunc(share.Rules,
		func(other *Rule) bool { return other.Type == rule.Type && sameTarget(other, rule) })
	switch {
	case rule.Level != "ro" && rule.Level != "rw":
		return rest.BadRequest("Invalid access rule: Invalid share access level: %s.", rule.Level)
	case exists:
		return rest.BadRequest("Share access %s:%s exists.", rule.Type, rule.To)
	case slices.Contains([]string{
		rest.Creating, creatingFromSnapshot, rest.Failed, rest.Deleting, rest.ErrorDeleting,
	}, share.Status):
		return rest.BadRequest("New access rules cannot be applied while the share or any of its " +
			"replicas or migration copies lacks a valid host or is in an invalid state.")
	}
	return nil
}

func sameTarget(a, b *Rule) bool {
	one, errOne := network(a.To)
	other, errOther := network(b.To)
	return a.To == b.To || errOne == nil && errOther == nil && one == other
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
	i := slices.IndexFunc(share.Rules, func(rule *Rule) bool { return rule.ID == wanted.ID })
	if i < 0 {
		return rest.Answer{}, rest.NotFound("Resource could not be found.")
	}
	rule := share.Rules[i]
	rule.State, rule.Updated = queuedToDeny, time.Now()
	s.config.Worker.Start(r.Outcome, nil, func(err error) {
		if err != nil {
			rule.State = rest.Failed
			return
		}
		share.Rules = slices.DeleteFunc(share.Rules, func(other *Rule) bool { return other == rule })
	})
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
func describeRule(r *rest.Request, share *Share, rule *Rule) map[string]any {
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

// rulesStatus returns the state of all access rules of a share.
func rulesStatus(r *rest.Request, share *Share) string {
	has := func(states ...string) bool {
		return slices.ContainsFunc(share.Rules,
			func(rule *Rule) bool { return slices.Contains(states, rule.State) })
	}
	switch {
	case has(rest.Failed):
		return rest.Failed
	case has(queuedToApply, queuedToDeny) && r.Version.AtLeast(28):
		return "syncing"
	case has(queuedToApply, queuedToDeny):
		return "out_of_sync"
	}
	return active
}
