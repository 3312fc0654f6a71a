package comparison

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// Client sends requests to a cloud. Values are what replaces words in braces.
type Client struct {
	cloud  testcloud.Cloud
	info   simulator.Info
	values map[string]string
}

// NewClient returns a Client with the values that requests may use: the credentials of the cloud,
// and the address of each service.
func NewClient(cloud testcloud.Cloud) *Client {
	accepted := cloud.Credentials()
	c := &Client{cloud: cloud, info: cloud.Info(), values: map[string]string{
		"user": accepted.UserID, "user_name": accepted.UserName,
		"project": accepted.ProjectID, "project_name": accepted.ProjectName,
		"password":               accepted.Password,
		"application_credential": accepted.ApplicationCredentialID,
		"secret":                 accepted.ApplicationCredentialSecret,
	}}
	for service := range c.info.Endpoints {
		c.values[string(service)] = c.root(service)
	}
	return c
}

// root returns the address of a service without the version of its API.
func (c *Client) root(service simulator.Service) string {
	endpoint := c.info.Endpoints[service]
	return endpoint[:strings.Index(endpoint, string(service))+len(service)]
}

// Send sends a request and returns the fields of the answer.
func (c *Client) Send(ctx context.Context, r Request) (Fields, error) {
	if change, found := strings.CutPrefix(r.Request, "SET "); found {
		return Fields{}, c.set(c.fill(change))
	}
	request, err := c.build(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", r.Name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", r.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", r.Name, err)
	}
	if err := c.save(r.Save, response.Header, body); err != nil {
		return nil, fmt.Errorf("request %q: %w: HTTP %d %s", r.Name, err, response.StatusCode, body)
	}
	return NewFields(response.StatusCode, response.Header, body, c.values), nil
}

// set changes the status of a volume or a share as its manager does.
func (c *Client) set(change string) error {
	words := strings.Fields(change)
	service, id, _ := strings.Cut(words[0], "/")
	var reasons []simulator.Reason
	for _, word := range words[2:] {
		action, detail, _ := strings.Cut(word, ":")
		reasons = append(reasons, simulator.Reason{Action: action, Detail: detail})
	}
	return c.cloud.SetStatus(simulator.Service(service), id, words[1], reasons...)
}

func (c *Client) build(ctx context.Context, r Request) (*http.Request, error) {
	method, target, found := strings.Cut(c.fill(r.Request), " ")
	service, rest, _ := strings.Cut(target, "/")
	endpoint := c.info.Endpoints[simulator.Service(service)]
	if strings.HasPrefix(rest, "/") {
		endpoint = c.root(simulator.Service(service))
		rest = strings.TrimPrefix(rest, "/")
	}
	if !found || endpoint == "" {
		return nil, fmt.Errorf("%q is not a method, a service and a path", r.Request)
	}
	address, err := url.Parse(endpoint + "/" + rest)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, address.String(),
		strings.NewReader(c.fill(r.Body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if token := c.values["token"]; token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	if r.Body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Header {
		request.Header.Set(name, c.fill(value))
		if value == "" {
			request.Header.Del(name)
		}
	}
	return request, nil
}

func (c *Client) fill(text string) string {
	for name, value := range c.values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// save keeps values of an answer. A field is "header NAME", or the path to a value of the body.
func (c *Client) save(wanted map[string]string, header http.Header, body []byte) error {
	for name := range maps.Keys(wanted) {
		field := wanted[name]
		if headerName, found := strings.CutPrefix(field, "header "); found {
			c.values[name] = header.Get(headerName)
		} else {
			value, err := lookup(body, field)
			if err != nil {
				return err
			}
			c.values[name] = value
		}
		if c.values[name] == "" {
			return fmt.Errorf("the answer has no %s", field)
		}
	}
	return nil
}

// lookup returns a value of a JSON document by its path, such as ".volume.id".
func lookup(body []byte, field string) (string, error) {
	var content any
	if err := json.Unmarshal(body, &content); err != nil {
		return "", err
	}
	for key := range strings.SplitSeq(strings.TrimPrefix(field, "."), ".") {
		object, ok := content.(map[string]any)
		if !ok {
			return "", fmt.Errorf("the answer has no %s", field)
		}
		content = object[key]
	}
	text, _ := content.(string)
	return text, nil
}
