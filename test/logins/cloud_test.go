package logins_test

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
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
	// Shares and Volumes are the minimum and the maximum microversion of Manila and of Cinder.
	Shares, Volumes [2]string
	// Login is what Keystone does: "" for the usual, "503", "413", "html", or "default project", with
	// which a login without a project gets one.
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
	c.EnableHTTP2 = true
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
	case strings.HasPrefix(path, "/found"): // with a status that removes the body of a login
		http.Redirect(w, r, c.URL+"/"+strings.Trim(path[len("/found"):], "/ "), http.StatusFound)
	case path == "/named": // a front end, whose document of versions names Keystone
		c.read(w, "/identity")
	case strings.TrimPrefix(path, "/identity") == "/v3/auth/tokens":
		c.login(w, r)
	case strings.TrimPrefix(path, "/identity") == "/v3/auth/catalog":
		answer(w, http.StatusOK, map[string]any{"catalog": c.services()})
	case r.Method == http.MethodPost, strings.HasPrefix(path, "/keystone"),
		strings.HasPrefix(path, "/named/"):
		http.Error(w, "<!doctype html>\n<title>404 Not Found</title>", http.StatusNotFound) // of Keystone
	default:
		c.mu.Lock()
		c.paths = append(c.paths, path)
		c.mu.Unlock()
		c.read(w, path)
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
	if json.NewDecoder(r.Body).Decode(&request) != nil {
		failure(w, http.StatusBadRequest)
		return
	}
	scope := request.Auth.Scope
	login := summaryOf(request.Auth.Identity, scope)
	c.mu.Lock()
	c.logins = append(c.logins, login)
	c.mu.Unlock()
	domain := map[string]any{"id": "default", "name": "Default"}
	token := map[string]any{
		"methods": request.Auth.Identity["methods"], "expires_at": "2100-01-01T00:00:00.000000Z",
		"user": map[string]any{"id": "u1", "name": "demo", "domain": domain},
	}
	credential := strings.Contains(login, `"application_credential"`)
	switch {
	case c.catalog.Login == "503":
		failure(w, http.StatusServiceUnavailable)
		return
	case c.catalog.Login == "413": // as services did before status 429 existed
		w.Header().Set("Retry-After", "7")
		failure(w, http.StatusRequestEntityTooLarge)
		return
	case c.catalog.Login == "html":
		_, _ = io.WriteString(w, "<html>Welcome</html>")
		return
	case strings.Contains(login, `:"wrong"`), credential && scope != nil:
		failure(w, http.StatusUnauthorized)
		return
	case scope["system"] != nil, scope["domain"] != nil:
		token["catalog"] = c.services()
	case credential, len(scope) > 0, c.catalog.Login == "default project":
		token["catalog"] = c.services()
		token["project"] = map[string]any{"id": "p1", "name": "demo", "domain": domain}
	}
	w.Header().Set("X-Subject-Token", "token")
	answer(w, http.StatusCreated, map[string]any{"token": token})
}

// summaryOf returns the body of a login without what follows from the rest.
func summaryOf(identity, scope map[string]any) string {
	short := maps.Clone(identity)
	delete(short, "methods")
	if password, ok := identity["password"].(map[string]any); ok {
		delete(short, "password")
		maps.Copy(short, password)
	}
	maps.Copy(short, scope)
	return compact(short)
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// services returns the catalog in the format of Keystone, with a service for each endpoint.
func (c *cloud) services() []any {
	services := []any{}
	for _, line := range c.catalog.Endpoints {
		fields := append(strings.Fields(line), "")
		region, id, _ := strings.Cut(fields[1], "/")
		address := fields[3]
		if strings.HasPrefix(address, "/") {
			address = c.URL + address
		}
		services = append(services, map[string]any{
			"id": line, "type": fields[0], "name": fields[0], "endpoints": []any{map[string]any{
				"id": line, "region": region, "region_id": cmp.Or(id, region), "interface": fields[2],
				"url": address,
			}},
		})
	}
	return services
}

// read answers with a document of versions, or with empty lists.
func (c *cloud) read(w http.ResponseWriter, path string) {
	document := func(id, minimum, maximum string) map[string]any {
		return map[string]any{
			"id": id, "status": "CURRENT", "version": maximum, "min_version": minimum,
			"links": []any{map[string]any{"rel": "self", "href": c.URL + path + "/"}},
		}
	}
	versions := func(status int, one map[string]any) {
		answer(w, status, map[string]any{"versions": []any{one}})
	}
	root := regexp.MustCompile(`/v[0-9.]+$`).ReplaceAllString(path, "")
	switch {
	case strings.HasSuffix(root, "/compute") && path != root:
		answer(w, http.StatusOK, map[string]any{"version": document("v2.1", "2.1", "2.96")})
	case strings.HasSuffix(root, "/compute"):
		versions(http.StatusOK, document("v2.1", "2.1", "2.96"))
	case strings.HasSuffix(root, "/volume"):
		volumes := c.catalog.Volumes
		versions(http.StatusMultipleChoices,
			document("v3.0", cmp.Or(volumes[0], "3.0"), cmp.Or(volumes[1], "3.70")))
	case strings.HasSuffix(root, "/share"):
		shares := c.catalog.Shares
		versions(http.StatusOK,
			document("v2.0", cmp.Or(shares[0], "2.0"), cmp.Or(shares[1], "2.78")))
	case root != "" && root != "/identity":
		answer(w, http.StatusOK, map[string]any{
			"availabilityZoneInfo": []any{}, "share_types": []any{}, "volume_types": []any{},
		})
	case path != root:
		answer(w, http.StatusOK, map[string]any{"version": document("v3.14", "", "")})
	default:
		path += "/v3"
		answer(w, http.StatusMultipleChoices, map[string]any{
			"versions": map[string]any{"values": []any{document("v3.14", "", "")}},
		})
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
