package logins_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// catalog is what an OpenStack offers.
type catalog struct {
	// Endpoints are lines with the type of a service, its region, its interface, and its URL or the
	// path of it. A region may be followed by a slash and an ID.
	Endpoints []string
	// Shares are the minimum and the maximum microversion of Manila.
	Shares [2]string
	// Login is what Keystone does: "" for the usual, or "503", "html", or "default project", with which
	// a login without a project gets one.
	Login string
}

// cloud is an OpenStack that records logins and requests.
type cloud struct {
	*httptest.Server
	catalog catalog

	mu     sync.Mutex
	logins []string
	paths  []string
}

// newCloud starts a cloud, with HTTPS if there is a certificate.
func newCloud(t *testing.T, offered catalog, certificate *tls.Certificate) *cloud {
	t.Helper()
	c := &cloud{catalog: offered}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are results
	t.Cleanup(c.Close)
	if certificate == nil {
		c.Start()
		return c
	}
	c.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	c.StartTLS()
	return c
}

// take returns the different logins and the paths of other requests since the last call.
func (c *cloud) take() (logins, paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	logins, paths, c.logins, c.paths = c.logins, c.paths, nil, nil
	return slices.Compact(logins), paths
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case strings.HasPrefix(path, "/moved/"): // another host for clients, although the same server
		http.Redirect(w, r, strings.Replace(c.URL, "127.0.0.1", "localhost", 1)+
			strings.TrimPrefix(path, "/moved"), http.StatusPermanentRedirect)
	case strings.TrimPrefix(path, "/identity") == "/v3/auth/tokens":
		c.login(w, r)
	case strings.TrimPrefix(path, "/identity") == "/v3/auth/catalog":
		answer(w, http.StatusOK, map[string]any{"catalog": c.services()})
	default:
		c.mu.Lock()
		c.paths = append(c.paths, path)
		c.mu.Unlock()
		c.read(w, strings.Split(path, "/"))
	}
}

// login answers as Keystone does, for each user except those whose password or secret is "wrong".
func (c *cloud) login(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Auth struct {
			Identity map[string]any `json:"identity"`
			Scope    map[string]any `json:"scope"`
		} `json:"auth"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &request) != nil {
		failure(w, http.StatusBadRequest)
		return
	}
	summary := summaryOf(request.Auth.Identity, request.Auth.Scope)
	c.mu.Lock()
	c.logins = append(c.logins, summary)
	c.mu.Unlock()
	token := map[string]any{
		"methods": request.Auth.Identity["methods"], "expires_at": "2100-01-01T00:00:00.000000Z",
		"issued_at": "2020-01-01T00:00:00.000000Z",
		"user":      map[string]any{"id": "u1", "name": "demo", "domain": defaultDomain()},
	}
	credential := strings.Contains(summary, `"application_credential"`)
	_, system := request.Auth.Scope["system"]
	_, domain := request.Auth.Scope["domain"]
	switch {
	case c.catalog.Login == "503":
		failure(w, http.StatusServiceUnavailable)
		return
	case c.catalog.Login == "html":
		_, _ = io.WriteString(w, "<html>Welcome</html>")
		return
	case strings.Contains(summary, `:"wrong"`), credential && request.Auth.Scope != nil:
		failure(w, http.StatusUnauthorized)
		return
	case system, domain:
		token["catalog"] = c.services()
	case credential, len(request.Auth.Scope) > 0, c.catalog.Login == "default project":
		token["catalog"] = c.services()
		token["project"] = map[string]any{"id": "p1", "name": "demo", "domain": defaultDomain()}
	}
	w.Header().Set("X-Subject-Token", "token")
	answer(w, http.StatusCreated, map[string]any{"token": token})
}

func defaultDomain() map[string]any { return map[string]any{"id": "default", "name": "Default"} }

// summaryOf returns the body of a login without what follows from the rest.
func summaryOf(identity, scope map[string]any) string {
	short := map[string]any{}
	for _, method := range []string{"password", "application_credential", "token"} {
		switch content := identity[method].(type) {
		case map[string]any:
			if user, ok := content["user"]; ok && method == "password" {
				short["user"] = user
			} else {
				short[method] = content
			}
		}
	}
	for key, value := range scope {
		short[key] = value
	}
	return compact(short)
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// services returns the catalog in the format of Keystone.
func (c *cloud) services() []any {
	services := []any{}
	var endpoints []any
	for i, line := range c.catalog.Endpoints {
		fields := append(strings.Fields(line), "", "", "", "")
		region, id, found := strings.Cut(fields[1], "/")
		if !found {
			id = region
		}
		address := fields[3]
		if strings.HasPrefix(address, "/") {
			address = c.URL + address
		}
		endpoints = append(endpoints, map[string]any{
			"id": line, "region": region, "region_id": id, "interface": fields[2], "url": address,
		})
		if i+1 == len(c.catalog.Endpoints) ||
			!strings.HasPrefix(c.catalog.Endpoints[i+1], fields[0]+" ") {
			services = append(services, map[string]any{
				"id": line, "type": fields[0], "name": fields[0], "endpoints": endpoints,
			})
			endpoints = nil
		}
	}
	return services
}

// read answers with a document of versions, or with an empty list.
func (c *cloud) read(w http.ResponseWriter, path []string) {
	last := path[len(path)-1]
	versioned := len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9'
	contains := func(name string) bool { return slices.Contains(path, name) }
	root := func(name string) bool { return last == name || versioned && contains(name) }
	document := func(id, minimum, maximum string) map[string]any {
		return map[string]any{
			"id": id, "status": "CURRENT", "version": maximum, "min_version": minimum,
			"links": []any{map[string]any{"rel": "self", "href": c.URL + strings.Join(path, "/") + "/"}},
		}
	}
	switch {
	case root("compute") && versioned:
		answer(w, http.StatusOK, map[string]any{"version": document("v2.1", "2.1", "2.96")})
	case root("compute"):
		answer(w, http.StatusOK, map[string]any{"versions": []any{document("v2.1", "2.1", "2.96")}})
	case root("volume"):
		answer(w, http.StatusOK, map[string]any{"versions": []any{document("v3.0", "3.0", "3.70")}})
	case root("share") && last != "v1":
		minimum, maximum := c.catalog.Shares[0], c.catalog.Shares[1]
		if maximum == "" {
			minimum, maximum = "2.0", "2.78"
		}
		answer(w, http.StatusOK, map[string]any{"versions": []any{document("v2.0", minimum, maximum)}})
	case contains("compute"), contains("volume"), contains("share"):
		answer(w, http.StatusOK, map[string]any{
			"availabilityZoneInfo": []any{}, "share_types": []any{}, "volume_types": []any{},
		})
	case len(path) == 1, len(path) == 2 && last == "identity":
		version := document("v3.14", "", "")
		version["links"] = []any{map[string]any{
			"rel": "self", "href": c.URL + strings.Join(path, "/") + "/v3/",
		}}
		answer(w, http.StatusMultipleChoices,
			map[string]any{"versions": map[string]any{"values": []any{version}}})
	case last == "v3":
		answer(w, http.StatusOK, map[string]any{"version": document("v3.14", "", "")})
	default:
		failure(w, http.StatusNotFound)
	}
}

func failure(w http.ResponseWriter, status int) {
	answer(w, status, map[string]any{"error": map[string]any{
		"code": status, "title": http.StatusText(status), "message": http.StatusText(status),
	}})
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // a client that is gone needs no answer
}
