//go:build monitoring

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// stopGrace is how long a program may take to stop.
const stopGrace = 30 * time.Second

// target is an address that Prometheus scrapes, with the labels that Prometheus Operator adds.
type target struct {
	address, path, scheme, token string
	honorLabels                  bool
	labels                       map[string]string
}

// scrapeConfig returns the target in the configuration format of Prometheus.
func (o target) scrapeConfig() map[string]any {
	config := map[string]any{
		"job_name": o.labels["job"], "metrics_path": o.path, "scheme": o.scheme,
		"honor_labels": o.honorLabels,
		"tls_config":   map[string]any{"insecure_skip_verify": true},
		"static_configs": []any{map[string]any{
			"targets": []string{o.address}, "labels": o.labels,
		}},
	}
	if o.token != "" {
		config["authorization"] = map[string]any{"credentials": o.token}
	}
	return config
}

// server is a running Prometheus.
type server struct {
	*testing.T

	url string
}

// startPrometheus starts Debian's Prometheus with the alerts. It runs until the test ends.
func startPrometheus(t *testing.T, folder, rules string, targets []target) server {
	t.Helper()
	var scrapes []any
	for _, o := range targets {
		scrapes = append(scrapes, o.scrapeConfig())
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules}, "scrape_configs": scrapes,
	})
	must(t, err)
	file := filepath.Join(folder, "prometheus.yaml")
	must(t, paths.WriteFile(file, config))
	address := freeAddress(t)
	start(t, "/usr/bin/prometheus", filepath.Join(folder, "prometheus.log"),
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(folder, "tsdb"),
		"--web.listen-address="+address)
	return server{T: t, url: "http://" + address}
}

// start starts a program, which ends with the test.
func start(t *testing.T, program, log string, args ...string) {
	t.Helper()
	p, err := process.Start(process.Options{
		Name: filepath.Base(program), Path: program, Args: args, Log: log,
	})
	must(t, err)
	t.Cleanup(func() {
		if !p.Running() {
			t.Error(p.ExitError())
		}
		p.Stop(stopGrace)
	})
}

// freeAddress returns an address of this machine that no program uses now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	return listener.Addr().String()
}

// get decodes the data in an answer of the API.
func (p server) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// await waits until an expression has data.
func (p server) await(expression string) {
	p.Helper()
	var last error
	err := wait.PollUntilContextTimeout(p.Context(), time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			var data struct{ Result []any }
			last = p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &data)
			return last == nil && len(data.Result) > 0, nil
		})
	if err != nil {
		p.Errorf("waiting for data of %s: %v, %v", expression, err, last)
	}
}

// mustEvaluate checks that Prometheus evaluates all rules without an error.
func (p server) mustEvaluate(rules int) {
	p.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	must(p.T, p.get(p.Context(), "/api/v1/rules", &data))
	if len(data.Groups) != 1 || len(data.Groups[0].Rules) != rules {
		p.Fatalf("Prometheus has the rules %v, want %d", data.Groups, rules)
	}
	for _, r := range data.Groups[0].Rules {
		if r.Health != "ok" {
			p.Errorf("evaluating %s: %s %s", r.Name, r.Health, r.LastError)
		}
	}
}
