package seed

import (
	"embed"
	"fmt"
	"path"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed operators/*.yaml
var operatorFiles embed.FS

// registry is where the images would be; nobody pulls them here.
const registry = "registry.devcluster.example.com/openshift/"

// Operator says how cluster-storage-operator runs one operator.
type Operator struct {
	// Name is that of its Deployment, ServiceAccount and manifest folder.
	Name string `json:"name"`
	// Program is the binary.
	Program string `json:"program"`
	// Namespace is where it runs, OperandNamespace where its driver runs.
	Namespace        string `json:"namespace"`
	OperandNamespace string `json:"operandNamespace"`
	// ClusterCSIDriver is the object it reports to.
	ClusterCSIDriver string `json:"clusterCSIDriver"`
	// Images has the name of an image by environment variable.
	Images map[string]string `json:"images"`
}

// Operators reads the operators of the named drivers.
func Operators(drivers []string) ([]Operator, error) {
	operators := make([]Operator, 0, len(drivers))
	for _, driver := range drivers {
		content, err := operatorFiles.ReadFile(path.Join("operators", driver+".yaml"))
		if err != nil {
			return nil, fmt.Errorf("driver %q is not known, only %s", driver, strings.Join(knownDrivers(), ", "))
		}
		var o Operator
		if err := yaml.UnmarshalStrict(content, &o); err != nil {
			return nil, fmt.Errorf("decoding the operator of driver %q: %w", driver, err)
		}
		operators = append(operators, o)
	}
	return operators, nil
}

func knownDrivers() []string {
	entries, err := operatorFiles.ReadDir("operators")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Env is the environment the operator's Deployment gives it, sorted.
func (o Operator) Env() []string {
	env := []string{"POD_NAME=" + o.Name + "-7d9c5b6f4-x2x7z"}
	for variable, image := range o.Images {
		env = append(env, variable+"="+registry+image+":latest")
	}
	sort.Strings(env)
	return env
}
