//go:build integration

package logins_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
)

// candidate is a random Secret for a random cloud. Its fields are those of auth, and those beside
// it.
type candidate struct {
	name, catalog, tls, cacert string
	fields                     [2]map[string]any
}

// search runs random candidates.
type search struct {
	*rand.Rand
	world   *world
	drivers []*program
	// known are parts of messages of the operator or the driver that are exceptions, by driver.
	known map[string][]string
	runs  int
}

// TestRandomLoginsHaveTheSameEffect searches for DURATION for candidates with which operators and
// drivers differ, and prints a small one for each kind of difference. SEED repeats a search.
//
//nolint:paralleltest // candidates remove their files one after the other
func TestRandomLoginsHaveTheSameEffect(t *testing.T) {
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("DURATION"), "0s"))
	assert.NilError(t, err)
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	w := newWorld(t)
	s := &search{rand.New(rand.NewPCG(seed, 0)), w, programs(t), map[string][]string{}, 0}
	for _, r := range readRows(t, w) { // what is an exception in the table is one here
		for driver, outcome := range r.Drivers {
			name, _, _ := strings.Cut(driver, " ")
			s.known[driver] = append(s.known[driver], cmp.Or(r.refusal(name), outcome))
		}
	}
	found := map[string]bool{}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		c := s.candidate(t)
		for kind := range s.differences(t, c) {
			if !found[kind] {
				found[kind] = true
				c := s.smallest(t, c, kind)
				t.Errorf("%s\ncatalog %q, TLS %q, cacert %q\n%s", kind, c.catalog, c.tls, c.cacert, c.text())
			}
		}
	}
	t.Logf("SEED=%d: %d candidates, %d kinds of differences", seed, s.runs, len(found))
}

// fieldsOf returns the keys of a struct in YAML.
func fieldsOf(structure reflect.Type) []string {
	var names []string
	for i := range structure.NumField() {
		name, _, _ := strings.Cut(structure.Field(i).Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}

func pick[T any](s *search, of ...T) T { return of[s.IntN(len(of))] }

// candidate returns a complete login with up to four changes.
func (s *search) candidate(t *testing.T) candidate {
	t.Helper()
	c := candidate{
		name: pick(s, "openstack", "openstack", "prod", "a b"), catalog: "standard",
		tls: pick(s, "", "", "private", "system"),
	}
	var auth map[string]any
	form := pick(s, "{"+user+", "+project+"}",
		`{user_id: u1, password: secret, project_id: p1}`,
		`{username: demo, password: secret, domain_id: default, project_name: demo}`,
		`{application_credential_id: a1, application_credential_secret: secret}`,
		`{application_credential_name: csi, application_credential_secret: secret, user_id: u1}`)
	assert.NilError(t, yaml.Unmarshal([]byte(form), &auth))
	auth["auth_url"] = s.authURL()
	c.fields = [2]map[string]any{auth, {"region_name": "RegionOne"}}
	if s.IntN(2) == 0 {
		c.catalog = pick(s, slices.Sorted(maps.Keys(s.world.catalogs))...)
	}
	if c.tls == "private" {
		c.cacert = "${CA:private}"
	}
	for range s.IntN(5) {
		s.change(&c)
	}
	return c
}

// authURL returns a URL from parts that drivers treat in different ways.
func (s *search) authURL() string {
	return "${URL}" + pick(s, "", "", "/identity", "/identity", "/keystone", "/found") +
		pick(s, "", "/", "//", "/v3", "/v3", "/v3", "/v2", "/v2.0", "/v3.14", "v3", "/dev2/identity") +
		pick(s, "", "", "", "/", "//", "/auth", "/auth/tokens", "/v3") +
		pick(s, "", "", "", "?", "?a=b", "?a=/v3", "#", "#/v3", " # text")
}

func (s *search) change(c *candidate) {
	place := s.IntN(2)
	name := pick(s, [2][]string{
		fieldsOf(reflect.TypeFor[clientconfig.AuthInfo]()),
		fieldsOf(reflect.TypeFor[clientconfig.Cloud]()),
	}[place]...)
	value, present := c.fields[place][name]
	switch change := s.IntN(6); {
	case name == "auth":
	case change == 0 && present: // move it to the wrong place
		delete(c.fields[place], name)
		c.fields[1-place][name] = value
	case change == 1 && len(c.fields[place]) > 0:
		delete(c.fields[place], pick(s, slices.Sorted(maps.Keys(c.fields[place]))...))
	case change == 2:
		c.cacert = pick(s, "", "\n", "${CA:private}", "${CA:other}", "text")
	default:
		c.fields[place][name] = s.value(name)
	}
}

// value returns a value that often fits to the field.
func (s *search) value(name string) any {
	usual := map[string][]any{
		"auth_url":      {"${URL}/v2.0", "${URL}/moved/v3", "${URL}/v3 ", "127.0.0.1", "${URL}//v3"},
		"interface":     {"public", "internal", "internalURL", "Public"},
		"endpoint_type": {"public", "internal", "publicURL", ""},
		"region_name":   {"RegionOne", "RegionTwo", "two", "", 1},
		"verify":        {true, false, "no"},
		"cacert":        {"${CA:private}", "/home/someone/ca.pem", "\n"},
		"auth_type":     {"password", "v3password", "v3applicationcredential", "token"},
		"regions":       {[]string{"RegionOne"}, []any{map[string]any{"name": "RegionOne"}}},
		"password":      {"secret", "wrong", 123, true, nil, " x ", "a\nb"},
		"allow_reauth":  {true, false},
	}
	if values := usual[name]; values != nil && s.IntN(4) > 0 {
		return pick(s, values...)
	}
	return pick[any](s, "demo", "default", "Default", "u1", "p1", "a1", "secret", "", nil, 3, true)
}

func (c candidate) text() string {
	entry := maps.Clone(c.fields[1])
	entry["auth"] = c.fields[0]
	text, err := yaml.Marshal(map[string]any{"clouds": map[string]any{c.name: entry}})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// differences returns the kinds of differences between operators and drivers.
func (s *search) differences(t *testing.T, c candidate) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	s.runs++
	t.Run(strconv.Itoa(s.runs), func(t *testing.T) {
		text := c.text()
		r := row{Clouds: &text, CACert: &c.cacert, TLS: c.tls, Catalog: c.catalog}
		server := s.world.cloud(t, r)
		content := r.content(s.world, server)
		for driver, services := range drivenServices() {
			endpoints, err := login(t, content, server, driver)
			logins, _ := server.take()
			if _, refused := generate(content); refused != nil {
				err = refused
			}
			wanted := row{Endpoints: map[string]string{}}
			if len(logins) != 1 || json.Unmarshal([]byte(logins[0]), &wanted.Login) != nil {
				wanted.Login = map[string]any{"logins": logins}
			}
			for service, url := range endpoints {
				wanted.Endpoints[service] = strings.TrimPrefix(url, server.URL)
			}
			verdict := wanted.outcome(server, err, []string{wanted.wantedLogin()}, endpoints, services...)
			content.refused[driver] = verdict != works
			for name, outcome := range drive(t, wanted, content, server, s.drivers) {
				same := outcome == works
				if verdict != works {
					same = strings.HasPrefix(outcome, fails)
				}
				if strings.HasPrefix(name, driver+" ") && !same &&
					!slices.ContainsFunc(s.known[name], func(known string) bool {
						return strings.Contains(verdict+outcome, known)
					}) {
					kinds[kindOf(name, verdict, outcome)] = true
				}
			}
		}
	})
	return kinds
}

// kindOf returns a text that is the same for similar differences.
func kindOf(driver, verdict, outcome string) string {
	values := regexp.MustCompile(`(\{".*|"[^"]*"|\d+)`)
	return fmt.Sprintf("%s: the operator: %s; the driver: %s", driver,
		values.ReplaceAllString(verdict, "_"), values.ReplaceAllString(outcome, "_"))
}

// smallest removes what a difference does not need.
func (s *search) smallest(t *testing.T, c candidate, kind string) candidate {
	t.Helper()
	keep := func(smaller candidate) {
		if s.differences(t, smaller)[kind] {
			c = smaller
		}
	}
	for place := range c.fields {
		for _, name := range slices.Sorted(maps.Keys(c.fields[place])) {
			smaller := c
			smaller.fields[place] = maps.Clone(c.fields[place])
			delete(smaller.fields[place], name)
			keep(smaller)
		}
	}
	keep(candidate{"openstack", c.catalog, c.tls, c.cacert, c.fields})
	keep(candidate{c.name, "standard", c.tls, c.cacert, c.fields})
	keep(candidate{c.name, c.catalog, "", "", c.fields})
	return c
}
