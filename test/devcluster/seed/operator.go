package seed

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed operators/*.yaml
var operatorFiles embed.FS

// registry is where the images would be; nobody pulls them here.
const registry = "registry.devcluster.example.com/openshift/"

// Operator says how cluster-storage-operator runs one operator, and what the
// operator is expected to make.
type Operator struct {
	// Driver is its name on the command line.
	Driver string `json:"-"`
	// Name is that of its Deployment, ServiceAccount and manifest folder.
	Name string `json:"name"`
	// Program is the binary.
	Program string `json:"program"`
	// Namespace is where it runs, OperandNamespace where its driver runs.
	Namespace        string `json:"namespace"`
	OperandNamespace string `json:"operandNamespace"`
	// ClusterCSIDriver is the object it reports to.
	ClusterCSIDriver string `json:"clusterCSIDriver"`
	// Address is the host and port on which it serves metrics.
	Address string `json:"-"`
	// Images has the name of an image by environment variable. ControlPlaneImages are
	// further ones, of the management cluster's release, which it has only in a hosted
	// control plane.
	Images             map[string]string `json:"images"`
	ControlPlaneImages map[string]string `json:"controlPlaneImages"`
	// Controller is the Deployment it makes in the namespace of a hosted control plane.
	Controller string `json:"controller"`
	// Credentials are the Secrets that the operator and its driver mount.
	Credentials []Credential `json:"credentials"`
	// CloudConfigCopies are the namespaces to which cluster-storage-operator copies
	// ConfigMap openshift-config/cloud-provider-config for its sake.
	CloudConfigCopies []string `json:"cloudConfigCopies"`
	// StorageClasses are those that it must make. With ClassPerShareType there must
	// also be one for each share type of OpenStack.
	StorageClasses    []string `json:"storageClasses"`
	ClassPerShareType bool     `json:"classPerShareType"`

	hosted bool
}

// Credential is a Secret that cloud-credential-operator makes.
type Credential struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Request is the name of its CredentialsRequest.
	Request string `json:"request"`
}

// Operators reads the operators of the named drivers, of which no name may come
// twice.
func Operators(drivers []string) ([]Operator, error) {
	operators := make([]Operator, 0, len(drivers))
	for i, driver := range drivers {
		if slices.Contains(drivers[:i], driver) {
			return nil, fmt.Errorf("driver %q is given twice", driver)
		}
		content, err := operatorFiles.ReadFile(path.Join("operators", driver+".yaml"))
		if err != nil {
			return nil, fmt.Errorf("driver %q is not known, only %s", driver, strings.Join(knownDrivers(), ", "))
		}
		o := Operator{Driver: driver}
		if err := yaml.UnmarshalStrict(content, &o); err != nil {
			return nil, fmt.Errorf("decoding the operator of driver %q: %w", driver, err)
		}
		operators = append(operators, o)
	}
	return operators, checkCredentials(operators)
}

// checkCredentials insists that one request makes a Secret that several operators mount.
func checkCredentials(operators []Operator) error {
	requests := map[string]string{}
	for _, one := range credentials(operators) {
		secret := one.Namespace + "/" + one.Name
		if other, known := requests[secret]; known {
			return fmt.Errorf("operators name requests %q and %q for one Secret %s: give it the same request in each file of seed/operators",
				other, one.Request, secret)
		}
		requests[secret] = one.Request
	}
	return nil
}

// AllOperators reads the operators of all drivers there are.
func AllOperators() ([]Operator, error) { return Operators(knownDrivers()) }

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

// Hosted is the operator as it runs in a hosted control plane.
func (o Operator) Hosted(guest string) Operator {
	o.Namespace, o.hosted = ControlPlaneNamespace(guest), true
	return o
}

// Env is the environment the operator's Deployment gives it, sorted.
func (o Operator) Env() []string {
	env := []string{"POD_NAME=" + o.Name + "-7d9c5b6f4-x2x7z"}
	for variable, image := range o.Images {
		env = append(env, variable+"="+registry+image+":latest")
	}
	if o.hosted {
		for variable, image := range o.ControlPlaneImages {
			env = append(env, variable+"="+registry+image+":control-plane")
		}
	}
	sort.Strings(env)
	return env
}
