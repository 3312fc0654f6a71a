package shares

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// AccessRule allows clients to use a share. It contains what the cloud returned.
type AccessRule struct {
	ID string
	// Type is ip, user, cert or cephx.
	Type string
	// To is an address or a network if the type is ip. Quote it in messages.
	To string
	// Level is ro or rw.
	Level string
	// State is active, error, or the state of a request that Manila has not completed.
	State    string
	Metadata map[string]string
}

// word matches the types, levels and states of access rules. They have at most maxWord characters.
var word = regexp.MustCompile(`^[a-z_]+$`)

// Limits of access rules: the size of names in Manila's database, and how many a share may have.
const (
	maxWord   = 32
	maxClient = 255
	maxRules  = 1000
)

// Rules returns the access rules of a share, at most 1000.
func (r *Requests) Rules(ctx context.Context, shareID string) ([]AccessRule, error) {
	var rules []AccessRule
	err := r.call(ctx, func(client *gophercloud.ServiceClient) error {
		result := shareaccessrules.List(ctx, client, shareID)
		if result.Err != nil {
			return result.Err
		}
		if body, ok := result.Body.(map[string]any); !ok || body["access_list"] == nil {
			return openstack.ErrNotOpenStack
		}
		found, err := result.Extract()
		if err != nil {
			return err
		}
		if len(found) > maxRules {
			return openstack.TooManyError(maxRules)
		}
		rules = make([]AccessRule, 0, len(found))
		for _, rule := range found {
			checked, err := checkedRule(rule)
			if err != nil {
				return err
			}
			rules = append(rules, checked)
		}
		return nil
	})
	return rules, err
}

func checkedRule(rule shareaccessrules.ShareAccess) (AccessRule, error) {
	words := []string{rule.AccessType, rule.AccessLevel, rule.State}
	valid := openstack.IsID(rule.ID) && rule.AccessTo != "" &&
		utf8.RuneCountInString(rule.AccessTo) <= maxClient &&
		!slices.ContainsFunc(words, func(text string) bool {
			return len(text) > maxWord || !word.MatchString(text)
		})
	if !valid {
		return AccessRule{}, openstack.ErrNotOpenStack
	}
	metadata := map[string]string{}
	for key, value := range rule.Metadata {
		text, ok := value.(string)
		if !ok || !isShort(key) || !isShort(text) {
			return AccessRule{}, openstack.ErrNotOpenStack
		}
		metadata[key] = text
	}
	return AccessRule{
		ID: rule.ID, Type: rule.AccessType, To: rule.AccessTo, Level: rule.AccessLevel,
		State: rule.State, Metadata: metadata,
	}, nil
}

// grantOptions adds metadata to gophercloud's request.
type grantOptions struct {
	shares.GrantAccessOpts

	metadata map[string]string
}

// ToGrantAccessMap implements shares.GrantAccessOptsBuilder.
func (o grantOptions) ToGrantAccessMap() (map[string]any, error) {
	request, err := o.GrantAccessOpts.ToGrantAccessMap()
	if err == nil && len(o.metadata) > 0 {
		request["allow_access"].(map[string]any)["metadata"] = maps.Clone(o.metadata)
	}
	return request, err
}

// Grant adds an access rule to a share. Manila applies it later.
func (r *Requests) Grant(ctx context.Context, shareID string, rule AccessRule) error {
	return r.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.GrantAccess(ctx, client, shareID, grantOptions{
			shares.GrantAccessOpts{AccessType: rule.Type, AccessTo: rule.To, AccessLevel: rule.Level},
			rule.Metadata,
		}).Err
	})
}

// Revoke removes an access rule from a share. Manila applies it later. It returns no error if the
// share or the rule does not exist.
func (r *Requests) Revoke(ctx context.Context, shareID, ruleID string) error {
	return ignoreNotFound(r.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.RevokeAccess(ctx, client, shareID, shares.RevokeAccessOpts{AccessID: ruleID}).Err
	}))
}
