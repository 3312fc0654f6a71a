package openstack_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	loginCall   = "POST /identity/v3/auth/tokens"
	catalogCall = "GET /identity/v3/auth/catalog"
)

func TestLoginAcceptsEveryKindOfEntry(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]simulator.Clouds{
		"password":                       {},
		"application credential by id":   {Auth: simulator.ApplicationCredential},
		"application credential by name": {Auth: simulator.NamedApplicationCredential},
		"other name of the only entry":   {Cloud: "production"},
		"without region":                 {NoRegion: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(options)
			client := s.client()
			s.wantTypes(client, "gold", "silver")
			s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
			for range 3 {
				s.wantTypes(client, "gold", "silver")
				s.wantCalls(map[string]int{typesCall: 1})
			}
		})
	}
}

func TestAuthURLMayLackTheVersion(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	s.replace(s.front, strings.TrimSuffix(s.front, "/v3"))
	client := s.client()
	s.wantTypes(client, "gold", "silver")
	s.counters()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1})
}

func TestEndpointIsInTheRegion(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"north": typesCall,
		"south": "GET /south/share/v2/types",
	} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{Regions: []string{"north", "south"}})
			s.clouds(simulator.Clouds{Region: region})
			s.wantTypes(s.client(), "gold", "silver")
			s.wantCalls(map[string]int{loginCall: 1, want: 1})
		})
	}
}

// The operator ignores a list of regions, as the drivers do, and uses the first endpoint.
func TestEndpointWithoutRegionNameIsTheFirst(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{Regions: []string{"north", "south"}})
	s.clouds(simulator.Clouds{NoRegion: true})
	s.replace("    interface: public\n", "    interface: public\n    regions: [south, north]\n")
	s.wantTypes(s.client())
	s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
}

func TestUnknownRegionIsNotOffered(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{Regions: []string{"north", "south"}})
	s.clouds(simulator.Clouds{Region: "west"})
	wantFragment(t, s.wantFailure(s.client(), openstack.NotOffered), "in region west")
}

func TestEndpointHasTheInterface(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"": "public", "interface: \"public\"": "public", "interface: internal": "internal",
		"interface: admin":           "admin",
		"endpoint_type: internalURL": "internal",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.front = cloudOfInterfaces(t)
			s.clouds(simulator.Clouds{NoRegion: true})
			s.replace("    interface: public\n", "    "+line+"\n")
			s.wantTypes(s.client(), want)
		})
	}
}

// cloudOfInterfaces returns the URL of a cloud whose only share type has the name of the interface
// that the request used.
func cloudOfInterfaces(t *testing.T) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := strings.Split(r.URL.Path, "/")[1]
		if kind != "v3" {
			writeJSON(w, http.StatusOK, `{"share_types":[{"name":"`+kind+`"}]}`)
			return
		}
		var endpoints []string
		for _, kind := range []string{"admin", "internal", "public"} {
			endpoints = append(endpoints, `{"interface":"`+kind+`","url":"`+server.URL+"/"+kind+`/v2"}`)
		}
		w.Header().Set("X-Subject-Token", "token")
		writeJSON(w, http.StatusCreated,
			`{"token":{"project":{"id":"p"},"catalog":[{"type":"sharev2","endpoints":[`+
				strings.Join(endpoints, ",")+`]}]}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v3"
}

func TestPrivateCAIsReadByPrecedence(t *testing.T) {
	t.Parallel()
	const path = "has a path in clouds.openstack.cacert (line 11), and pods do not contain that file"
	const garbage = "-----BEGIN CERTIFICATE-----\nnot really\n-----END CERTIFICATE-----\n"
	for name, test := range map[string]struct {
		cacert        string // in clouds.yaml: "REAL" is the path of a file with the CA, "INLINE" the CA
		first, legacy string // files: "REAL" is the CA
		want          openstack.Reason
		fragment      string
	}{
		"from the credentials Secret":    {first: "REAL"},
		"from the legacy file":           {legacy: "REAL"},
		"from clouds.yaml itself":        {cacert: "INLINE"},
		"Secret before legacy":           {first: "REAL", legacy: garbage},
		"Secret before path":             {first: "REAL", cacert: "garbage.pem"},
		"Secret before inline":           {first: "REAL", cacert: garbage},
		"legacy before path":             {legacy: "REAL", cacert: "garbage.pem"},
		"empty file is none":             {first: "", legacy: "REAL"},
		"a path of the installer's host": {first: "REAL", cacert: "/home/installer/ca.pem"},
		"a path that is a directory":     {first: "", legacy: "REAL", cacert: "/"},
		"a path below a file":            {legacy: "REAL", cacert: "clouds.yaml/ca.pem"},
		"none": {
			want:     openstack.CloudUnreachable,
			fragment: "unknown authority",
		},
		"only a path of the installer's host": {
			cacert: "/home/installer/ca.pem", want: openstack.InvalidCredentials, fragment: path,
		},
		"garbage in the Secret": {
			first: garbage, legacy: "REAL",
			want:     openstack.InvalidCredentials,
			fragment: "key cacert of Secret operands/credentials contains no PEM certificate",
		},
		"text in the legacy file": {
			legacy:   "secret-text",
			want:     openstack.InvalidCredentials,
			fragment: "key ca-bundle.pem of ConfigMap operands/ca contains no PEM certificate",
		},
		"garbage in clouds.yaml": {
			cacert: garbage, want: openstack.InvalidCredentials,
			fragment: "in clouds.openstack.cacert (line 11) contains no PEM certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TLS: true})
			s.write("real.pem", s.ca())
			s.write("garbage.pem", garbage)
			for file, text := range map[string]string{"ca.crt": test.first, "legacy.pem": test.legacy} {
				if text != "" || strings.HasPrefix(name, "empty") {
					s.write(file, strings.ReplaceAll(text, "REAL", s.ca()))
				}
			}
			switch test.cacert {
			case "REAL", "garbage.pem", "clouds.yaml/ca.pem", "clouds.yaml/x":
				test.cacert = s.path(strings.ReplaceAll(test.cacert, "REAL", "real.pem"))
			case "INLINE":
				test.cacert = s.ca()
			}
			s.clouds(simulator.Clouds{CACert: test.cacert})
			if test.want == "" {
				s.wantTypes(s.client(), "gold", "silver")
				return
			}
			wantFragment(t, s.wantFailure(s.client(), test.want), test.fragment)
		})
	}
}

func TestVerifyFalseSkipsVerification(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	s.clouds(simulator.Clouds{})
	s.replace("    interface: public\n", "    verify: false\n")
	s.wantTypes(s.client(), "gold", "silver")
}

func TestChangedFilesCauseNewLogin(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	s.clouds(simulator.Clouds{})
	client := s.client()
	s.wantFailure(client, openstack.CloudUnreachable)
	s.write("ca.crt", s.ca())
	s.counters()
	for _, change := range []func(){
		func() {},
		func() { s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential}) },
		func() { s.write("ca.crt", s.ca()+"\n# another bundle\n") },
		func() { s.clouds(simulator.Clouds{Cloud: "other"}) },
	} {
		change()
		s.wantTypes(client, "gold", "silver")
		s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
		s.unchanged(client)
	}
	s.write("clouds.yaml", "clouds: [")
	s.wantFailure(client, openstack.InvalidCredentials)
	s.wantCalls(map[string]int{})
	s.clouds(simulator.Clouds{Cloud: "other"})
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1}) // the session outlives the invalid file
}

// unchanged expects the next request to need no login.
func (s *fixture) unchanged(client *openstack.Client) {
	s.t.Helper()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1})
}
