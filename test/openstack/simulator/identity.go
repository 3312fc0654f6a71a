package simulator

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Errors of Keystone.
const (
	errorAuthentication = "The request you have made requires authentication."
	errorScope          = "Error authenticating with application credential: " +
		"Application credentials cannot request a scope."
)

func (s *Simulator) login(c *call) reply {
	var request authRequest
	if err := json.Unmarshal(c.body, &request); err != nil || len(request.Auth.Identity.Methods) == 0 {
		return failure(c, http.StatusBadRequest,
			"Expecting to find auth.identity.methods in the JSON body.")
	}
	identity, scope := request.Auth.Identity, request.Auth.Scope
	for _, method := range identity.Methods {
		if id := s.credentials.unknown(method, identity); id != "" {
			return failure(c, http.StatusNotFound, "Could not find Application Credential: "+id+".")
		}
		if !s.credentials.accepts(method, identity) {
			return failure(c, http.StatusUnauthorized, errorAuthentication)
		}
	}
	restricted := slices.Contains(identity.Methods, "application_credential")
	owner := s.credentials
	switch {
	case restricted && scope != nil:
		return failure(c, http.StatusUnauthorized, errorScope)
	case scope != nil && !owner.contains(scope.Project, owner.ProjectID, owner.ProjectName):
		return failure(c, http.StatusUnauthorized, errorAuthentication)
	}
	s.journal.loggedIn()
	return s.issue(c, identity.Methods, restricted || scope != nil)
}

// identityVersions lists the version of Keystone, or describes it at its own URL. Keystone needs no
// token for this.
func (s *Simulator) identityVersions(c *call) reply {
	version := map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links": []map[string]string{{"rel": "self", "href": s.info.AuthURL + "/"}},
		"media-types": []map[string]string{{
			"base": "application/json", "type": "application/vnd.openstack.identity-v3+json",
		}},
	}
	if c.path == "/v3" {
		return document(http.StatusOK, map[string]any{"version": version})
	}
	return document(http.StatusMultipleChoices,
		map[string]any{"versions": map[string]any{"values": []any{version}}})
}

// unknownPath is the answer of Keystone for a path that does not exist.
func unknownPath() reply {
	return reply{
		status: http.StatusNotFound,
		header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		body: []byte("<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n" +
			"<h1>Not Found</h1>\n<p>The requested URL was not found on the server. If you entered the " +
			"URL manually please check your spelling and try again.</p>\n"),
	}
}

func (s *Simulator) issue(c *call, methods []string, scoped bool) reply {
	const layout = "2006-01-02T15:04:05.000000Z"
	now, owner := time.Now().UTC(), s.credentials
	expiry := now.Add(s.config.TokenTTL)
	domain := map[string]string{"id": owner.DomainID, "name": owner.DomainName}
	var audit [16]byte
	_, _ = rand.Read(audit[:]) // never fails
	content := map[string]any{
		"audit_ids": []string{base64.RawURLEncoding.EncodeToString(audit[:])}, "is_domain": false,
		"methods": methods, "issued_at": now.Format(layout), "expires_at": expiry.Format(layout),
		"user": map[string]any{
			"id": owner.UserID, "name": owner.UserName, "domain": domain, "password_expires_at": nil,
		},
	}
	if slices.Contains(methods, "application_credential") {
		content["application_credential"] = map[string]any{
			"id": owner.ApplicationCredentialID, "name": owner.ApplicationCredentialName, "restricted": true,
		}
	}
	if scoped {
		content["project"] = map[string]any{
			"id": owner.ProjectID, "name": owner.ProjectName, "domain": domain,
		}
		content["roles"] = []any{s.role()}
		content["catalog"] = s.catalog(c)
	}
	var random [96]byte
	_, _ = rand.Read(random[:])
	id := "gAAAAAB" + base64.RawURLEncoding.EncodeToString(random[:]) // like a Fernet token
	s.tokens[id] = expiry
	s.issued = append(s.issued, id)
	answer := document(http.StatusCreated, map[string]any{"token": content})
	answer.header["X-Subject-Token"] = []string{id}
	return answer
}

// role returns the role of the owner, from which nothing here follows.
func (s *Simulator) role() map[string]any {
	return map[string]any{"id": "9fe2ff9ee4384b1894a90878d3e92bab", "name": s.credentials.Role}
}

func (s *Simulator) authorized(c *call) bool {
	return time.Now().Before(s.tokens[c.header.Get("X-Auth-Token")])
}

func (s *Simulator) applicationCredential(c *call) reply {
	owner := s.credentials
	if c.path != "/v3/users/"+owner.UserID+"/application_credentials/"+owner.ApplicationCredentialID {
		return failure(c, http.StatusNotFound,
			"Could not find Application Credential: "+path.Base(c.path)+".")
	}
	var expires any
	if expiry := owner.ApplicationCredentialExpiry; !expiry.IsZero() {
		expires = expiry.UTC().Format("2006-01-02T15:04:05.000000")
	}
	role := s.role()
	content := map[string]any{
		"id": owner.ApplicationCredentialID, "name": owner.ApplicationCredentialName,
		"project_id": owner.ProjectID, "user_id": owner.UserID, "description": nil, "system": nil,
		"expires_at": expires, "unrestricted": false,
		"roles": []any{map[string]any{
			"id": role["id"], "name": role["name"], "description": nil, "domain_id": nil,
			"options": map[string]bool{"immutable": true},
		}},
		"links": map[string]string{"self": s.info.AuthURL + strings.TrimPrefix(c.path, "/v3")},
	}
	if len(owner.AccessRules) > 0 {
		content["access_rules"] = owner.AccessRules
	}
	return document(http.StatusOK, map[string]any{"application_credential": content})
}

func (s *Simulator) catalogResponse(c *call) reply {
	return document(http.StatusOK, map[string]any{
		"catalog": s.catalog(c), "links": map[string]string{"self": s.info.AuthURL + "/auth/catalog"},
	})
}

// catalog lists the services with their endpoints. The types are what real clouds register;
// gophercloud finds sharev2 and volumev3 as aliases of shared-file-system and block-storage.
func (s *Simulator) catalog(c *call) []any {
	catalog := []any{}
	types := map[Service]string{
		Identity: "identity", Share: "sharev2", Compute: "compute", Volume: "volumev3",
	}
	names := map[Service]string{
		Identity: "keystone", Share: "manilav2", Compute: "nova", Volume: "cinderv3",
	}
	for _, service := range Services() {
		if c.emptyCatalog || s.removed[types[service]] {
			continue
		}
		var endpoints []any
		for _, region := range s.config.Regions {
			for _, kind := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, map[string]string{
					"id": newID(), "interface": kind, "region": region, "region_id": region,
					"url": s.endpoint(service, region),
				})
			}
		}
		catalog = append(catalog, map[string]any{
			"id": newID(), "type": types[service], "name": names[service], "endpoints": endpoints,
		})
	}
	return catalog
}
