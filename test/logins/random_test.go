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
)

// candidate is a random Secret for a random cloud.
type candidate struct {
	name                 string
	auth, beside         map[string]any
	catalog, tls, cacert string
}

// search runs random candidates, and keeps the smallest of each kind of difference.
type search struct {
	*rand.Rand
	world    *world
	drivers  []*program
	catalogs []string
	// known are parts of messages of the operator or the driver that are exceptions, by driver.
	known map[string][]string
	runs     int
	found    map[string]candidate
	fields   [2][]string
}

// TestRandomLoginsHaveTheSameEffect searches for DURATION for candidates of which operators and
// drivers make different things. SEED repeats a search.
func TestRandomLoginsHaveTheSameEffect(t *testing.T) {
	t.Parallel()
	if os.Getenv("DURATION") == "" {
		t.Skip("make fuzz-clouds sets DURATION")
	}
	duration, err := time.ParseDuration(os.Getenv("DURATION"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	s := newSearch(t, seed)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		c := s.candidate()
		for kind := range s.differences(t, c) {
			if _, found := s.found[kind]; !found {
				s.found[kind] = s.smallest(t, c, kind)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.found)) {
		c := s.found[kind]
		t.Errorf("%s\ncatalog %q, TLS %q, cacert %q\n%s", kind, c.catalog, c.tls, c.cacert, c.text())
	}
	t.Logf("SEED=%d: %d candidates, %d kinds of differences", seed, s.runs, len(s.found))
}

func newSearch(t *testing.T, seed uint64) *search {
	t.Helper()
	w := newWorld(t)
	s := &search{
		Rand: rand.New(rand.NewPCG(seed, 0)), world: w, drivers: programs(t),
		catalogs: slices.Sorted(maps.Keys(w.catalogs)),
		known:    map[string][]string{}, found: map[string]candidate{},
		fields: [2][]string{
			fieldsOf(reflect.TypeFor[clientconfig.AuthInfo]()), fieldsOf(reflect.TypeFor[clientconfig.Cloud]()),
		},
	}
	for _, r := range readRows(t, w) { // what is an exception in the table is one here
		for driver, outcome := range r.Drivers {
			name, _, _ := strings.Cut(driver, " ")
			s.known[driver] = append(s.known[driver], cmp.Or(r.refusal(name), outcome))
		}
	}
	return s
}

// fieldsOf returns the keys of a struct in YAML, except the one of the other struct.
func fieldsOf(structure reflect.Type) []string {
	var names []string
	for i := range structure.NumField() {
		name, _, _ := strings.Cut(structure.Field(i).Tag.Get("yaml"), ",")
		if name != "auth" {
			names = append(names, name)
		}
	}
	return names
}

func pick[T any](s *search, of ...T) T { return of[s.IntN(len(of))] }

// candidate returns a complete login with up to four changes.
func (s *search) candidate() candidate {
	c := candidate{
		name: pick(s, "openstack", "openstack", "prod", "a b"), beside: map[string]any{},
		catalog: pick(s, s.catalogs...), tls: pick(s, "", "", "private", "system"),
		auth: pick(s,
			map[string]any{
				"username": "demo", "password": "secret", "user_domain_name": "Default",
				"project_name": "demo", "project_domain_name": "Default",
			},
			map[string]any{"user_id": "u1", "password": "secret", "project_id": "p1"},
			map[string]any{
				"username": "demo", "password": "secret", "domain_id": "default", "project_name": "demo",
			},
			map[string]any{"application_credential_id": "a1", "application_credential_secret": "secret"},
			map[string]any{
				"application_credential_name": "csi", "application_credential_secret": "secret",
				"user_id": "u1",
			}),
	}
	if s.IntN(2) == 0 {
		c.catalog = "standard"
	}
	c.auth["auth_url"] = pick(s, "${URL}", "${URL}/v3", "${URL}/v3/", "${URL}/identity")
	if s.IntN(4) > 0 {
		c.beside["region_name"] = "RegionOne"
	}
	if c.tls == "private" {
		c.cacert = "${CA:private}"
	}
	for range s.IntN(5) {
		s.change(&c)
	}
	return c
}

func (s *search) change(c *candidate) {
	place := s.IntN(2)
	fields := []map[string]any{c.auth, c.beside}
	name := pick(s, s.fields[place]...)
	switch s.IntN(6) {
	case 0: // remove
		delete(fields[place], pick(s, append(slices.Sorted(maps.Keys(fields[place])), "")...))
	case 1: // move
		if value, found := fields[place][name]; found {
			delete(fields[place], name)
			fields[1-place][name] = value
		}
	case 2:
		c.cacert = pick(s, "", "\n", "${CA:private}", "${CA:other}", "text")
	case 3:
		c.auth["auth_url"] = pick(s, "${URL}/v2.0", "${URL}/moved/v3", "${URL}/v3 ", "127.0.0.1", "${URL}//v3")
	default:
		fields[place][name] = s.value(name)
	}
}

// value returns a value that often fits to the field.
func (s *search) value(name string) any {
	usual := map[string][]any{
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
	return pick[any](s, "demo", "default", "Default", "u1", "p1", "a1", "secret", "", nil, 3, "3", true)
}

func (c candidate) text() string {
	entry := maps.Clone(c.beside)
	entry["auth"] = c.auth
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
	t.Run(strconv.Itoa(s.runs), func(t *testing.T) { //nolint:paralleltest // it removes its files at its end
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
	for _, place := range []func(*candidate) *map[string]any{
		func(c *candidate) *map[string]any { return &c.auth },
		func(c *candidate) *map[string]any { return &c.beside },
	} {
		for _, name := range slices.Sorted(maps.Keys(*place(&c))) {
			smaller := c
			fields := maps.Clone(*place(&c))
			delete(fields, name)
			*place(&smaller) = fields
			keep(smaller)
		}
	}
	plain := c
	plain.name, plain.catalog, plain.tls, plain.cacert = "openstack", "standard", "", ""
	keep(plain)
	return c
}
