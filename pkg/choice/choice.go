// Package choice contains the choices of an administrator: the format of the key operator.yaml of a
// ConfigMap, its validation, and the effect on StorageClasses and node plugins. It sends no
// requests. Its callers are pkg/operator, pkg/plugin and the driver plugins. hack/choices writes
// the schema and the reference from the types, their tags and their comments.
package choice

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// Key is the key of the ConfigMap that contains the choices.
	Key = "operator.yaml"
	// APIVersion is the version of the format.
	APIVersion = "config.csi.openstack.org/v1alpha1"
)

// MaxItems is the maximum number of elements of a list or a map.
const MaxItems = 100

// Kind is the kind of the choices for a driver.
type Kind string

// The kinds.
const (
	Manila Kind = "ManilaConfig"
	Cinder Kind = "CinderConfig"
)

// In returns the kind of the objects whose spec contains the choices, or that of operator.yaml.
func (k Kind) In(spec bool) string {
	if spec {
		return strings.Replace(string(k), "Config", "Driver", 1)
	}
	return string(k)
}

// Values of Config.Driver.
const (
	// Auto installs the driver as soon as OpenStack offers what it needs.
	Auto = "Auto"
	// Always chooses what Auto would otherwise decide.
	Always = "Always"
	// Never is the opposite of Always. As the choice of the driver it does not install it.
	Never = "Never"
)

// Values of Config.Topology, beside Auto.
const (
	Enabled  = "Enabled"
	Disabled = "Disabled"
)

// Document is the content of the key.
type Document struct {
	// The version of this format: `config.csi.openstack.org/v1alpha1`.
	APIVersion string `json:"apiVersion" required:"true"`
	// `ManilaConfig` in the ConfigMap `manila-csi-config`, `CinderConfig` in `cinder-csi-config`.
	Kind   Kind `json:"kind" required:"true"`
	Config `json:",inline"`
}

// Config contains all choices for a driver. The zero value of each field is its default. A method
// of a nil Config returns what applies without choices.
//
// Tags of fields are part of the validation and of the schemas: `kind` restricts a field to one
// kind, `enum`, `max`, `range`, `required` (of one kind or all) and `rule` restrict its values,
// `default` documents the effect of a missing field, and `as` where the fields of an embedded type
// are documented. Lists and maps have at most MaxItems elements.
type Config struct {
	// Whether the operator installs the driver. `Auto` installs it as soon as OpenStack offers share
	// types. `Never` does not install it; a driver that is installed already stays.
	Driver string `json:"driver,omitempty" kind:"ManilaConfig" enum:"Auto,Never" default:"Auto"`
	// The types that get a StorageClass. By default these are all share types, and no volume type.
	Types Selection `json:"types,omitempty"`
	// The name of the default StorageClass. If it is set, the operator owns the annotation
	// `storageclass.kubernetes.io/is-default-class` of its own StorageClasses: it is `true` for the
	// StorageClass with this name, and `false` for the others. If it is missing, the annotation is
	// yours.
	DefaultClass string `json:"defaultClass,omitempty" rule:"name"`
	// Options of all StorageClasses of the operator.
	Class Class `json:"class,omitempty"`
	// Options for one type each, and more StorageClasses. A value here overrides the value in
	// `class`; labels, annotations and share metadata are merged.
	Classes []NamedClass `json:"classes,omitempty" rule:"classes"`
	// Options of the VolumeSnapshotClass. If they are missing, the parameter `force-create` is yours:
	// it is `false` in a new VolumeSnapshotClass, and the operator keeps the value that you set.
	SnapshotClass *SnapshotClass `json:"snapshotClass,omitempty" kind:"CinderConfig"`
	// Whether volumes and shares follow pods into the availability zones of their nodes. `Auto` means
	// that they do if each zone of servers is a zone of volumes, for Manila if each was once one of
	// shares. The default is `Auto` for Cinder, and `Disabled` for Manila, because with topology pods
	// in several zones cannot use one share.
	Topology string `json:"topology,omitempty" enum:"Auto,Enabled,Disabled"`
	// The network by whose addresses nodes mount shares, such as `10.0.0.0/8`, if the cloud exports a
	// share at several addresses. By default a node uses the address that Manila prefers. A share
	// without an address in the network cannot be mounted. A change affects the next mount.
	ExportLocations string `json:"exportLocations,omitempty" kind:"ManilaConfig" rule:"network"`
	// The folder of the kubelet on the nodes. Drain the nodes before you change it.
	KubeletDir string `json:"kubeletDir,omitempty" max:"52" rule:"folder" default:"/var/lib/kubelet"`
	// Options of the CSIDriver.
	CSIDriver CSIDriver `json:"csiDriver,omitempty"`
	// Options of the pods of the driver, in the types of Kubernetes.
	Pods Pods `json:"pods,omitempty"`
	// Whether annotations of claims reach the driver, with which users choose scheduler hints or share
	// groups: `cinder.csi.openstack.org/affinity`, `manila.csi.openstack.org/group-id` and others. In
	// a hosted control plane, whose driver cannot read claims, this field is an error.
	ClaimAnnotations bool `json:"claimAnnotations,omitempty" default:"false"`
	// Options of the sidecars of the driver.
	Sidecars Sidecars `json:"sidecars,omitempty"`
	// Containers of CSI-Addons beside the driver, while the CSI-Addons are installed. Without it, only
	// the environment variables of the operator add them.
	CSIAddons *CSIAddons `json:"csiAddons,omitempty"`
}

// CSIDriver contains options of the CSIDriver. Kubernetes does not allow changes of some of them,
// so the operator deletes the CSIDriver and creates it again. Volumes that are mounted stay.
type CSIDriver struct {
	// When the kubelet gives the files of a volume to the group of a pod. The default is `None` for
	// Manila, and `File` for Cinder. A change affects the next mount of each volume.
	FSGroupPolicy string `json:"fsGroupPolicy,omitempty" enum:"None,File,ReadWriteOnceWithFSType"`
	// Whether volumes are mounted with the SELinux label of the pod. The default is `true` for Cinder.
	SELinuxMount *bool `json:"seLinuxMount,omitempty"`
	// Whether pods use volumes by claims, and also inline, which drivers since v1.31 refuse. The
	// default is `Persistent`.
	Modes []string `json:"volumeLifecycleModes,omitempty" enum:"Persistent,Ephemeral" rule:"set"`
}

// SnapshotClass contains options of the VolumeSnapshotClass.
type SnapshotClass struct {
	// Whether Cinder creates snapshots of volumes that pods use: the parameter `force-create`. If you
	// remove the field here, the VolumeSnapshotClass keeps its value.
	ForceCreate bool `json:"forceCreate" required:"true"`
}

// Pods contains options of the pods of a driver.
type Pods struct {
	// Options of the node plugins, also of the one that mounts NFS.
	Node PodOptions `json:"node,omitempty"`
	// Options of the pods with the controller of the driver. In a hosted control plane, where these
	// pods run in the management cluster, this field is an error.
	Controller ControllerPods `json:"controller,omitempty"`
}

// PodOptions are all fields of pods that an administrator can set. Others, such as images,
// commands, environment, volumes and security contexts, are the operator's: the driver depends on
// them. The API server validates the values.
type PodOptions struct {
	// Labels to add, except those of Kubernetes and of the operator.
	Labels map[string]string `json:"labels,omitempty" rule:"added"`
	// Annotations to add, likewise.
	Annotations map[string]string `json:"annotations,omitempty" rule:"added"`
	// Labels of the nodes on which the pods run, in addition to those that the operator selects.
	// Pods with volumes of the driver start only on nodes with its node plugin.
	NodeSelector map[string]string `json:"nodeSelector,omitempty" rule:"nodes"`
	// The taints that the pods tolerate. The list replaces that of the operator; node plugins
	// tolerate every taint by default. Kubernetes itself adds tolerations for nodes with problems,
	// such as too little memory.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// The affinity of the pods. Each of its three fields replaces that of the operator.
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// The name of the PriorityClass. It replaces that of the operator.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Secrets with which images are pulled, in the namespace of the pods.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Lines of `/etc/hosts` in the pods.
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`
	// Resources by the name of the container. They replace those of the operator.
	Resources map[string]corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ControllerPods contains options of the pods with the controller of a driver.
type ControllerPods struct {
	// The number of the pods.
	Replicas   *int32 `json:"replicas,omitempty" range:"1-100"`
	PodOptions `json:",inline" as:"pods.node"`
}

// Sidecars contains options of the sidecars.
type Sidecars struct {
	// Whether sidecars release their Leases when they end, so that others need not wait for them.
	// Sidecars that do not know the feature gate `ReleaseLeaderElectionOnExit` do not start with it.
	// `Auto` means `Always` if the manifests of the operator name the images of the sidecars, or if
	// the operator can tell from their release that all sidecars know it. The environment variable
	// `RELEASE_LEASES` of the operator has precedence.
	ReleaseLeases string `json:"releaseLeases,omitempty" enum:"Auto,Always,Never" default:"Auto"`
	// Whether the metadata of new volumes, shares and snapshots of volumes in OpenStack name the claim
	// or the VolumeSnapshot and its namespace, for example in `csi.storage.k8s.io/pvc/name`.
	ClaimMetadata bool `json:"claimMetadata,omitempty" default:"false"`
	// How long a sidecar waits for the driver to end a call, such as `3m`. It applies to provisioner,
	// attacher, resizer and snapshotter, as the following fields do.
	Timeout string `json:"timeout,omitempty" rule:"duration"`
	// How many objects each sidecar processes at the same time.
	Workers int `json:"workers,omitempty" range:"1-1000"`
	// How many requests each sidecar sends to the API server, per second on average.
	KubeAPIQPS int `json:"kubeAPIQPS,omitempty" range:"1-1000"`
	// How many requests it sends at once.
	KubeAPIBurst int `json:"kubeAPIBurst,omitempty" range:"1-1000"`
}

// CSIAddons contains options of the containers of CSI-Addons.
type CSIAddons struct {
	// The image of the containers. On the nodes they run privileged, so only administrators may be
	// able to write this field. The environment variables for these images have precedence.
	Image string `json:"image" required:"true" rule:"image"`
	// Whether sidecars accept tokens for the API server instead of tokens for their pod. The
	// controller of the CSI-Addons for Ceph sends such tokens.
	APIServerTokens bool `json:"apiServerTokens,omitempty" default:"false"`
	// The maximum number of access rules of a share while a client is fenced, by default 256.
	MaxAccessRules int `json:"maxAccessRules,omitempty" kind:"ManilaConfig" range:"1-1000"`
}

// Selection selects types by their names.
type Selection struct {
	// Patterns of the types to include. A pattern matches the whole name: `*` stands for any text
	// without `/`, `?` for one character, `[a-c]` for one of several; `\` escapes these. A missing
	// list includes every share type, and no volume type.
	Include []string `json:"include,omitempty" rule:"glob"`
	// Patterns of the types to exclude. They have precedence over `include`. A type that already has
	// a StorageClass keeps it, but the operator does not repair it or create it again.
	Exclude []string `json:"exclude,omitempty" rule:"glob"`
}

// Class contains options of StorageClasses.
type Class struct {
	// What happens to a volume when its claim is deleted.
	ReclaimPolicy string `json:"reclaimPolicy,omitempty" enum:"Delete,Retain" default:"Delete"`
	// When a volume is created: at once, or when the first pod uses the claim. The default is
	// `Immediate` for Manila, and `WaitForFirstConsumer` for Cinder.
	VolumeBindingMode string `json:"volumeBindingMode,omitempty" enum:"Immediate,WaitForFirstConsumer"`
	// Mount options of the volumes. If you remove the list here, a StorageClass keeps its options.
	MountOptions []string `json:"mountOptions,omitempty" rule:"option"`
	// Labels of the StorageClass. A label that you remove here stays on the StorageClass.
	Labels map[string]string `json:"labels,omitempty" rule:"labels"`
	// Annotations of the StorageClass. An annotation that you remove here stays on the StorageClass.
	Annotations map[string]string `json:"annotations,omitempty" rule:"annotations"`
	// The availability zone of new volumes.
	Availability string `json:"availability,omitempty" rule:"zone"`
	// The filesystem of new volumes: the parameter `csi.storage.k8s.io/fstype`. The default is `ext4`.
	FSType string `json:"fsType,omitempty" kind:"CinderConfig" rule:"filesystem"`
	// The ID of the share network of new shares. It is used for share types with
	// `driver_handles_share_servers=true`, which need one.
	ShareNetworkID string `json:"shareNetworkID,omitempty" kind:"ManilaConfig" rule:"id"`
	// The networks that may mount new shares, such as `10.0.0.0/16`. The default is every IPv4
	// address, `0.0.0.0/0`. Nodes that mount shares by IPv6 need a value, such as `fd00::/64`. Name
	// only one network for version 1.33 of the driver, which makes one access rule of the whole list.
	ShareClients []string `json:"shareClients,omitempty" kind:"ManilaConfig" rule:"network"`
	// Metadata of new shares in Manila.
	ShareMetadata map[string]string `json:"shareMetadata" kind:"ManilaConfig" rule:"metadata"`
}

// NamedClass contains options of the StorageClass of one type.
type NamedClass struct {
	// The exact name of the type. For Cinder it may be missing beside a `name`, for the default volume
	// type.
	Type string `json:"type,omitempty" required:"ManilaConfig" max:"255"`
	// The name of one more StorageClass for the type. If it is missing, the entry is about the
	// StorageClass that the operator creates for the type. A StorageClass that exists with this name
	// and type is taken over. With a name that starts with `csi-cinder-` or `csi-manila-`, it must
	// exist, and keeps all fields that Kubernetes does not allow to change.
	Name  string `json:"name,omitempty" rule:"name"`
	Class `json:",inline" as:"class"`
}
