// Command logins gives the drivers of cloud-provider-openstack what an operator generated for them,
// and prints what they do with it. It reads folders from standard input, one on each line, and
// prints one line of JSON for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	cinder "k8s.io/cloud-provider-openstack/pkg/csi/cinder/openstack"
	"k8s.io/cloud-provider-openstack/pkg/csi/manila/manilaclient"
	"k8s.io/cloud-provider-openstack/pkg/csi/manila/options"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line, err := json.Marshal(run(lines.Text()))
		if err != nil {
			line = []byte(`{"error": "the answer cannot be encoded"}`)
		}
		fmt.Println(string(line))
	}
}

// answer is what one part of a driver does.
type answer struct {
	// Error is why the driver does not work, "" if it works.
	Error string `json:"error,omitempty"`
	// Endpoints are the URLs of the services that it found.
	Endpoints map[string]string `json:"endpoints,omitempty"`
}

// run starts the part of a driver that the last element of the folder names.
func run(folder string) (a answer) {
	defer func() {
		if problem := recover(); problem != nil {
			a = answer{Error: fmt.Sprintf("panic: %v", problem)}
		}
	}()
	_ = os.Unsetenv("OS_CLIENT_CONFIG_FILE") // the driver of Cinder sets it
	if err := os.Chdir(folder); err != nil {
		return answer{Error: err.Error()}
	}
	parts := map[string]func() (map[string]string, error){
		"cinder": controller, "cinder-node": node, "manila": shares, "settings": settings,
	}
	endpoints, err := parts[filepath.Base(folder)]()
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Endpoints: endpoints}
}

// controller does what cinder-csi-plugin does at its start in the Deployment.
func controller() (map[string]string, error) {
	cinder.InitOpenStackProvider([]string{"cloud.conf"}, "")
	client, err := cinder.CreateOpenStackProvider("")
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"compute": endpoint(client, "compute"), "volumes": endpoint(client, "blockstorage"),
	}, nil
}

// node does what cinder-csi-plugin does at its start in the DaemonSet.
func node() (map[string]string, error) {
	_, err := cinder.GetConfigFromFiles([]string{"cloud.conf"})
	return nil, err
}

// settings returns the types of the settings in cloud.conf, by section and name.
func settings() (map[string]string, error) {
	found := map[string]string{}
	config := reflect.TypeFor[cinder.Config]()
	for i := range config.NumField() {
		section := config.Field(i)
		t := section.Type
		for t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for j := range t.NumField() {
			if name := t.Field(j).Tag.Get("gcfg"); name != "" {
				found[section.Name+" "+name] = t.Field(j).Type.String()
			}
		}
	}
	return found, nil
}

// shares does what manila-csi-plugin does in each call.
func shares() (map[string]string, error) {
	text, err := os.ReadFile("keys.json")
	if err != nil {
		return nil, err
	}
	var keys map[string]string
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	login, err := options.NewOpenstackOptions(keys)
	if err != nil {
		return nil, err
	}
	client, err := manilaclient.New(context.Background(), login, "manila", nil)
	if err != nil {
		return nil, err
	}
	return map[string]string{"shares": endpoint(client, "c")}, nil
}

// endpoint reads the URL of a service from a field of the driver, which it does not export.
func endpoint(driver any, field string) string {
	client := reflect.ValueOf(driver).Elem().FieldByName(field).Elem()
	if base := client.FieldByName("ResourceBase").String(); base != "" {
		return strings.TrimSuffix(base, "/")
	}
	return strings.TrimSuffix(client.FieldByName("Endpoint").String(), "/")
}
