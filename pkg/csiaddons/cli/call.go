package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// call is one execution of an operation. It reads objects only if the operation needs them.
type call struct {
	*options

	driver *driver.Client
}

func (c *call) config() (*rest.Config, error) {
	// Without a path, BuildConfigFromFlags would print a warning before the output.
	load := rest.InClusterConfig
	if c.kubeconfig != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", c.kubeconfig) }
	}
	config, err := load()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig (flag --kubeconfig): %w", err)
	}
	return config, nil
}

func (c *call) reader(driverName string) (driver.Reader, error) {
	config, err := c.config()
	if err != nil {
		return driver.Reader{}, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return driver.Reader{}, fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	return driver.Reader{Kube: kube, Driver: driverName}, nil
}

// found returns the volume of the flag --persistentvolume, with the Secret of --secret or its own.
func (c *call) found(ctx context.Context) (*driver.Volume, error) {
	if c.volume == "" {
		return nil, usage("--operation=%s needs --persistentvolume", c.operation)
	}
	name := c.driverName
	if name == "" {
		described, err := c.driver.Describe(ctx)
		if err != nil {
			return nil, err
		}
		name = described.Name
	}
	reader, err := c.reader(name)
	if err != nil {
		return nil, err
	}
	if c.secret == "" {
		return reader.Volume(ctx, c.volume)
	}
	found, err := reader.VolumeWithoutSecrets(ctx, c.volume)
	if err != nil {
		return nil, err
	}
	found.Secrets, err = c.secrets(ctx)
	return found, err
}

// secrets returns the content of the Secret of the flag --secret; nil without the flag.
func (c *call) secrets(ctx context.Context) (map[string]string, error) {
	if c.secret == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(c.secret, "/")
	if !ok {
		return nil, usage("--secret=%q: use namespace/name", c.secret)
	}
	reader, err := c.reader("")
	if err != nil {
		return nil, err
	}
	return reader.Secrets(ctx, namespace, name)
}

func (c *call) allParameters() map[string]string {
	parameters := maps.Clone(c.parameters)
	if c.clusterID != "" {
		if parameters == nil {
			parameters = map[string]string{}
		}
		parameters["clusterID"] = c.clusterID
	}
	return parameters
}

// noTarget returns nothing: the request contains no volume, client or volume group.
func (*call) noTarget(context.Context) (fields, error) { return nil, nil }

func (c *call) staged(ctx context.Context) (fields, error) {
	found, err := c.found(ctx)
	if err != nil {
		return nil, err
	}
	capability, err := protojson.Marshal(found.Capability())
	path := found.StagingPath(c.stagingPath)
	return fields{
		"volume_id": found.ID(), "volume_path": path, "staging_target_path": path,
		"volume_capability": json.RawMessage(capability), "secrets": found.Secrets,
		"parameters": found.Attributes(),
	}, err
}

func (c *call) clients(context.Context) (fields, error) {
	if len(c.cidrs) == 0 {
		return nil, usage("--operation=%s needs --cidrs", c.operation)
	}
	var found []fields
	for _, cidr := range c.cidrs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return nil, usage("--cidrs: %q is not a CIDR", cidr)
		}
		found = append(found, fields{"cidr": cidr})
	}
	return fields{"cidrs": found}, nil
}

func (c *call) replicated(ctx context.Context) (fields, error) {
	if c.volume != "" && (c.groupID != "" || c.groupContent != "") {
		return nil, usage("use either --persistentvolume or the flags of a volume group")
	}
	if c.volume == "" {
		group, err := c.group(ctx)
		return fields{"replication_source": fields{"volumegroup": group}}, err
	}
	found, err := c.found(ctx)
	if err != nil {
		return nil, err
	}
	id := fields{"volume_id": found.ID()}
	replicated := fields{"replication_source": fields{"volume": id}, "secrets": found.Secrets}
	if c.legacy {
		maps.Copy(replicated, id) // older drivers read it
	}
	return replicated, nil
}

// newGroup returns the name of a volume group to create.
func (c *call) newGroup(context.Context) (fields, error) {
	if c.groupName == "" {
		return nil, usage("--operation=%s needs --volumegroupname", c.operation)
	}
	return fields{"name": c.groupName}, nil
}

func (c *call) group(ctx context.Context) (fields, error) {
	id, err := c.readGroupID(ctx)
	return fields{"volume_group_id": id}, err
}

func (c *call) readGroupID(ctx context.Context) (string, error) {
	switch {
	case c.groupID != "":
		return c.groupID, nil
	case c.groupContent == "":
		return "", usage("--operation=%s needs a volume group: set --volumegroupid or "+
			"--volumegroupreplicationcontent; a replication may have --persistentvolume instead",
			c.operation)
	}
	config, err := c.config()
	if err != nil {
		return "", err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("creating the client of VolumeGroupReplicationContents: %w", err)
	}
	object, err := objects.Resource(schema.GroupVersionResource{
		Group: "replication.storage.openshift.io", Version: "v1alpha1",
		Resource: "volumegroupreplicationcontents",
	}).Get(ctx, c.groupContent, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading VolumeGroupReplicationContent %s: %w", c.groupContent, err)
	}
	id, _, err := unstructured.NestedString(object.Object, "spec", "volumeGroupReplicationHandle")
	if err != nil || id == "" {
		return "", status.Errorf(codes.FailedPrecondition,
			"VolumeGroupReplicationContent %s contains no ID of a volume group", c.groupContent)
	}
	return id, nil
}
