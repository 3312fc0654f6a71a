package openstack

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Quota is what a project may use of a resource. Sizes are in GiB.
type Quota struct {
	// Resource is its name in quota sets, such as volumes, or gigabytes_TYPE for a volume type. A name
	// such as per_volume_gigabytes is that of a limit for each volume, whose use is 0.
	Resource string
	// Limit is 0 if nothing is allowed. Used includes what others in the project use, and, in quota
	// sets, what requests have reserved.
	Limit, Used int
}

// VolumeQuotas returns the quotas of Cinder that have a limit, also those of volume types.
func (c *Client) VolumeQuotas(ctx context.Context) ([]Quota, error) {
	return c.quotas(ctx, Cinder(), "os-quota-sets/{project}?usage=true")
}

// ShareQuotas returns the quotas of Manila that have a limit for the project. What requests have
// reserved is not included.
func (c *Client) ShareQuotas(ctx context.Context) ([]Quota, error) {
	return c.quotas(ctx, Manila(), "limits")
}

// ShareTypeQuotas returns the quotas of a share type that have a limit. Without a limit of its own,
// it has that of the project.
func (c *Client) ShareTypeQuotas(ctx context.Context, name string) ([]Quota, error) {
	return c.quotas(ctx, Manila(), "quota-sets/{project}/detail?share_type="+url.QueryEscape(name))
}

// ShareUserQuotas returns the quotas of Manila that have a limit for the user of the login. Without
// a limit of its own, it has that of the project.
func (c *Client) ShareUserQuotas(ctx context.Context) ([]Quota, error) {
	return c.quotas(ctx, Manila(), "quota-sets/{project}/detail?user_id={user}")
}

func (c *Client) quotas(
	ctx context.Context, service Service, path string,
) (found []Quota, err error) {
	var answer struct {
		Set    map[string]any `json:"quota_set"`
		Limits struct {
			Absolute map[string]any `json:"absolute"`
		} `json:"limits"`
	}
	if err := c.worded(c.optional(ctx, service, path, &answer)); err != nil {
		return nil, err
	}
	const tooMany = 1 << 50 // of gigabytes; a percentage of more would overflow
	add := func(resource string, limit, inUse, reserved any) {
		most, isNumber := limit.(float64)
		used, _ := inUse.(float64)
		more, _ := reserved.(float64)
		if isNumber && most >= 0 && most < tooMany && used+more < tooMany {
			found = append(found, Quota{resource, int(most), max(0, int(used+more))})
		}
	}
	for resource, value := range answer.Set {
		one, _ := value.(map[string]any)
		add(resource, one["limit"], one["in_use"], one["reserved"])
	}
	all := answer.Limits.Absolute
	for resource, name := range map[string]string{
		"shares": "Shares", "gigabytes": "ShareGigabytes", "snapshots": "ShareSnapshots",
		"snapshot_gigabytes": "SnapshotGigabytes",
	} {
		add(resource, all["maxTotal"+name], all["total"+name+"Used"], nil)
	}
	if answer.Set == nil && all == nil {
		err = errorf(CloudUnreachable, "OpenStack's %s returned no quotas that can be read", service.name)
	}
	slices.SortFunc(found, func(a, b Quota) int { return cmp.Compare(a.Resource, b.Resource) })
	return found, err
}

// optionalKey is that of the context of an optional request.
type optionalKey struct{}

// refusedOption is the last refusal of an optional request.
type refusedOption struct {
	token string
	final bool
	err   error
}

const (
	// optionalTimeout limits a request that nothing depends on. Other requests wait for it.
	optionalTimeout = 10 * time.Second
	// shareQuotasVersion is the first microversion with the quotas of share types.
	shareQuotasVersion = "2.39"
)

// optional sends a GET request that nothing depends on, with the session of an earlier request. It
// never logs in, renews a token, or reads the catalog: a service answers "401" also to requests
// that no access rule permits. After a refusal it is not sent again in the session. A token can
// have expired, so a "401" is final only if a later token gets it, too. In the path, {project} and
// {user} are the IDs of the token.
func (c *Client) optional(ctx context.Context, service Service, path string, answer any) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, optionalKey{}, true), optionalTimeout)
	defer cancel()
	release, err := c.acquire(ctx, service.name)
	if err != nil {
		return err
	}
	defer release()
	s := c.session
	if s == nil || s.used[service.label] == "" {
		return errorf(NotOffered, "OpenStack's %s has answered no other request yet", service.name)
	}
	key, inError, _ := strings.Cut(path, "status=") // a refusal is one of all statuses
	token, last := s.provider.Token(), s.optionals[key]
	if last.final || last.token == token {
		return last.err
	}
	if err = s.once(ctx, service, path, answer); err == nil {
		delete(s.optionals, key)
		return nil
	}
	endpoint := s.used[service.label]
	failed := callError(service.name, endpoint, s.access, err)
	status := statusOf(err)
	if status == http.StatusForbidden || status == http.StatusNotFound {
		what := map[bool]string{true: "quotas", false: "what is in error"}[inError == ""]
		if strings.HasPrefix(path, "messages") {
			what = "messages"
		}
		failed = errorf(Forbidden, "OpenStack's %s at %s does not show %s to this login (HTTP %d)%s",
			service.name, redactedURL(endpoint), what, status, said(service.name, err))
	}
	if failed.Reason == Forbidden || status == http.StatusUnauthorized {
		final := failed.Reason == Forbidden || last.err != nil
		s.optionals[key] = refusedOption{token, final, failed}
	}
	return failed
}

// once sends a GET request with a client that cannot renew the token.
func (s *session) once(ctx context.Context, service Service, path string, answer any) error {
	provider := &gophercloud.ProviderClient{
		HTTPClient: s.provider.HTTPClient, UserAgent: s.provider.UserAgent,
	}
	provider.SetToken(s.provider.Token())
	endpoint := &gophercloud.ServiceClient{
		ProviderClient: provider, Endpoint: s.used[service.label], Type: service.kind,
	}
	switch isShares := service.label == Manila().label; {
	case strings.HasPrefix(path, "quota-sets"):
		endpoint.Microversion = shareQuotasVersion
	case strings.HasPrefix(path, "messages") && isShares:
		endpoint.Microversion = shareMessagesVersion
	case strings.HasPrefix(path, "messages"):
		endpoint.Microversion = volumeMessagesVersion
	}
	s.service.Store(&service.label)
	to := strings.NewReplacer("{project}", s.access.project, "{user}", s.access.user).Replace(path)
	_, err := endpoint.Get(ctx, endpoint.ServiceURL(to), answer, nil) //nolint:bodyclose // closed
	return err
}
