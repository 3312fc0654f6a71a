package sharecloud

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
)

// sharesInPage is the number of shares in a page of a list.
const sharesInPage = 500

// Requests are the requests of a project. They implement manila.Shares.
type Requests struct {
	cloud   *Cloud
	project string
}

// Shares returns the requests of a project. Without a name the project has the shares without one.
func (c *Cloud) Shares(project string) *Requests { return &Requests{cloud: c, project: project} }

// send waits for the time of a request, and performs it while it holds the lock. The error is that
// of the client for the answer.
func (r *Requests) send(ctx context.Context, call Call, work func() error) error {
	c := r.cloud
	c.mu.Lock()
	c.requests++
	call.Number = c.requests
	if s := c.shares[call.ShareID]; s != nil {
		call.Backend = s.Backend
	}
	c.mu.Unlock()
	fault := Fault{}
	if c.config.Fault != nil {
		fault = c.config.Fault(call)
	}
	select {
	case <-ctx.Done():
	case <-time.After(c.config.RequestTime + fault.Delay):
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Err != nil && !fault.Lost:
		return fault.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(answer(work()), fault.Err)
}

// answer returns the error of the client for a refusal.
func answer(err error) error {
	refusal, ok := errors.AsType[*sharestate.RefusedError](err)
	if !ok {
		return err
	}
	reason := map[int]openstack.Reason{
		http.StatusBadRequest: openstack.Refused, http.StatusForbidden: openstack.Forbidden,
		http.StatusNotFound: openstack.NotFound, http.StatusConflict: openstack.Conflict,
	}[refusal.Status]
	return &openstack.Error{Reason: reason, Message: refusal.Message}
}

// about sends a request about one share. A share that does not exist is refused with a status.
func (r *Requests) about(ctx context.Context, method, id string, missing int,
	work func(*share) error,
) error {
	return r.send(ctx, Call{Method: method, ShareID: id}, func() error {
		s := r.cloud.find(id)
		if s == nil || s.Project != r.project {
			return &sharestate.RefusedError{Status: missing, Message: "Share " + id + " not found."}
		}
		return work(s)
	})
}

// List returns the shares with an entry of metadata, those in the recycle bin included.
func (r *Requests) List(ctx context.Context, key, value string,
) (found []shares.Share, err error) {
	var ids []string
	for page := 0; err == nil && page <= len(ids)/sharesInPage; page++ {
		err = r.send(ctx, Call{Method: "List"}, func() error {
			if page == 0 {
				ids = slices.Sorted(maps.Keys(r.cloud.shares))
			}
			for _, id := range ids[page*sharesInPage : min(len(ids), (page+1)*sharesInPage)] {
				s := r.cloud.find(id)
				if s != nil && s.Project == r.project && s.Metadata[key] == value {
					found = append(found, s.share())
				}
			}
			return nil
		})
	}
	return found, err
}

// Find returns a share, and whether it exists.
func (r *Requests) Find(ctx context.Context, id string) (found shares.Share, exists bool,
	err error,
) {
	err = r.about(ctx, "Find", id, http.StatusNotFound, func(s *share) error {
		found, exists = s.share(), true
		return nil
	})
	return found, exists, unlessMissing(err)
}

// Rules returns the access rules of a share.
func (r *Requests) Rules(ctx context.Context, id string) (rules []shares.AccessRule, err error) {
	err = r.about(ctx, "Rules", id, http.StatusBadRequest, func(s *share) error {
		rules = s.rules()
		return nil
	})
	return rules, err
}

// Grant adds an access rule.
func (r *Requests) Grant(ctx context.Context, id string, rule shares.AccessRule) error {
	return r.about(ctx, "Grant", id, http.StatusNotFound, func(s *share) error {
		s.queued = time.Now()
		return s.Allow(s.state(), &sharestate.Rule{
			ID: r.cloud.newID(), Type: rule.Type, To: rule.To, Level: rule.Level, Created: time.Now(),
			Metadata: maps.Clone(rule.Metadata),
		})
	})
}

// Revoke removes an access rule.
func (r *Requests) Revoke(ctx context.Context, id, ruleID string) error {
	return unlessMissing(r.about(ctx, "Revoke", id, http.StatusNotFound, func(s *share) error {
		s.queued = time.Now()
		_, err := s.Deny(s.state(), ruleID)
		return err
	}))
}

// SetMetadata sets entries of the metadata of a share.
func (r *Requests) SetMetadata(ctx context.Context, id string, entries map[string]string) error {
	return r.about(ctx, "SetMetadata", id, http.StatusNotFound, func(s *share) error {
		if err := sharestate.CheckMetadata(entries); err != nil {
			return err
		}
		maps.Copy(s.Metadata, entries)
		return nil
	})
}

// DeleteMetadata removes an entry of the metadata of a share.
func (r *Requests) DeleteMetadata(ctx context.Context, id, key string) error {
	return unlessMissing(r.about(ctx, "DeleteMetadata", id, http.StatusNotFound,
		func(s *share) error {
			delete(s.Metadata, key)
			return nil
		}))
}

func unlessMissing(err error) error {
	if found, ok := errors.AsType[*openstack.Error](err); ok && found.Reason == openstack.NotFound {
		return nil
	}
	return err
}

// share returns what Manila shows of a share.
func (s *share) share() shares.Share {
	return shares.Share{
		ID: s.ID, Status: s.status, Protocol: s.Protocol, RulesStatus: s.RulesStatus(s.status),
		Metadata: maps.Clone(s.Metadata),
	}
}

// rules returns what Manila shows of the access rules of a share.
func (s *share) rules() []shares.AccessRule {
	rules := make([]shares.AccessRule, 0, len(s.Access.Rules))
	for _, rule := range s.Access.Rules {
		rules = append(rules, shares.AccessRule{
			ID: rule.ID, Type: rule.Type, To: rule.To, Level: rule.Level, State: rule.State,
			Metadata: rule.Metadata,
		})
	}
	return rules
}
