package services

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestConfigurationOfEachServiceIsComplete(t *testing.T) {
	t.Parallel()
	s := settings{
		Dir: t.TempDir(), AuthURL: "http://127.0.0.1:1/v3", Password: "p", TokenTTL: time.Hour,
		BriefTTL: time.Minute,
	}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	for file, wanted := range map[string][]string{
		s.configuration(keystone):       {"expiration = 3600\n", s.Database("keystone")},
		s.script("keystone/brief.conf"): {"expiration = 60\n"},
		s.configuration(manila):         {"default_share_type", s.Database(manila), s.AuthURL},
		s.configuration(cinder):         {"resource_query_filters_file", s.Database(cinder), s.AuthURL},
		s.configuration(nova):           {s.Database("nova_api"), s.Database("nova_cell0"), s.AuthURL},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wanted {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not contain %q:\n%s", file, want, text)
			}
		}
		if strings.Contains(string(text), "{{") {
			t.Errorf("%s contains a placeholder:\n%s", file, text)
		}
	}
	if want := s.Dir + "/keystone/keystone.conf;" + s.Dir + "/keystone/brief.conf"; want !=
		s.configuration(brief) {
		t.Errorf("the files of %s are %q, want %q", brief, s.configuration(brief), want)
	}
}
