// Package fault parses the errors that the kubelet, sidecars, drivers, gophercloud and OpenStack
// print into events and conditions. What an error means depends on its parts alone: names in
// quotes, URLs and sizes are parts without a meaning.
package fault

// Fault is the text of an error with its parts. A part is empty if the text has none.
type Fault struct {
	// Text is all of it.
	Text string
	// Reporter is the component that wrote the text.
	Reporter Component
	// Operation is what failed, in the words of the reporter or of the driver, such as
	// "MountVolume.SetUp" or "ControllerPublishVolume". For a sidecar that names none it is the
	// request that the sidecar sends, such as "CreateVolume". The outermost one is kept.
	Operation string
	// Names are those in the text of the reporter and of the driver, such as the StorageClass. The
	// outermost one of each noun is kept.
	Names map[Noun]string
	// Code is the innermost gRPC code, such as "DeadlineExceeded".
	Code string
	// Answer is what a service of OpenStack answered.
	Answer *Answer
	// Leaf is the kind of the error at the end of the chain.
	Leaf Leaf
	// Message is what the last one in the chain said: OpenStack's message, the driver's words, the
	// output of a command, or the error of the network.
	Message string
	// Command is the command that failed on a node.
	Command *Command
	// Quota is the ResourceQuota of the leaf ExceededQuota.
	Quota *Quota
	// Scheduling is what the leaf Unschedulable says.
	Scheduling *Scheduling
}

// Answer is an HTTP response of OpenStack that gophercloud did not expect.
type Answer struct {
	// Status is the HTTP status, such as 409.
	Status int
	// Method and URL are those of the request. Service is what the path of the URL shows:
	// "compute", "volume", "share", "identity"; Resource is the last collection in the path, such
	// as "os-volume_attachments".
	Method, URL, Service, Resource string
	// Kind is OpenStack's name of the error, such as "overLimit" or "badRequest".
	Kind string
	// Message is OpenStack's own message, without the request ID.
	Message string
}

// Command is a command that a driver started on a node.
type Command struct {
	// Name is the program, such as "mount". Arguments is the rest of the command.
	Name, Arguments string
	// Exit is how the command ended, such as "exit status 32".
	Exit string
	// Output is what the command printed.
	Output string
}

// Quota is a ResourceQuota that refused a request. The quantities are in the format of Kubernetes,
// by the name of the resource, such as requests.storage: 40Gi.
type Quota struct {
	Name                     string
	Requested, Used, Limited map[string]string
}

// Scheduling is why no node fits a pod.
type Scheduling struct {
	// Nodes is the number of nodes.
	Nodes int
	// Reasons are in the order of the text. Message of Fault is the reason for all nodes instead, if
	// the scheduler compared none of them.
	Reasons []Reason
}

// Reason is why Nodes of the nodes do not fit.
type Reason struct {
	Nodes int
	Text  string
}

// Component is who reports an error.
type Component string

// The components that the parser knows by name; forms.txt has others. A Driver is the reporter of a
// text that begins with its own words or with a gRPC code, as in the status of a VolumeAttachment.
const (
	Scheduler Component = "default-scheduler"
	APIServer Component = "kube-apiserver"
	Driver    Component = "driver"
	Operator  Component = "operator"
)

// Noun is what a name in an error names.
type Noun string

// The nouns that somebody asks for. forms.txt has all of them.
const (
	PV       Noun = "pv"
	Volume   Noun = "volume"
	Volumes  Noun = "volumes"
	Share    Noun = "share"
	Failed   Noun = "failed"
	Snapshot Noun = "snapshot"
	Claim    Noun = "claim"
	Node     Noun = "node"
	Status   Noun = "status"
	URL      Noun = "url"
	Path     Noun = "path"
	Resource Noun = "resource"
	Name     Noun = "name"
	Output   Noun = "output"
)

// Leaf is a family of errors.
type Leaf string

// The leaves that the parser makes, or that tests name; forms.txt has others. An error without one
// ends in words that no format explains.
const (
	// Answered is a response of OpenStack, see Answer.
	Answered Leaf = "answered"
	// Client is another error of gophercloud: of its options, of the catalog or of a search by name.
	Client Leaf = "client"
	// DriverWords is a text of a driver that a form explains.
	DriverWords Leaf = "driver"
	// ComponentWords is a text of the reporter that a form explains.
	ComponentWords Leaf = "component"

	// Refused, Reset and Lookup are errors of the network: nothing listens, a connection that ended,
	// and DNS.
	Refused Leaf = "refused"
	Reset   Leaf = "reset"
	Lookup  Leaf = "lookup"
	// Certificate is a certificate that the client does not accept; TLS is another error of TLS, and
	// HTTP one of the protocol.
	Certificate Leaf = "certificate"
	TLS         Leaf = "tls"
	HTTP        Leaf = "http"

	// Deadline is the end of the time that the caller allows, Canceled that it does not wait any more.
	Deadline Leaf = "deadline"
	Canceled Leaf = "canceled"

	// CommandFailed is a command on a node, see Command; Mount is one of mount and umount.
	CommandFailed Leaf = "command"
	Mount         Leaf = "mount"
	// System is an error of a system call. Message is the text of its number.
	System Leaf = "system"

	// Unschedulable says that no node fits, see Scheduling.
	Unschedulable Leaf = "unschedulable"
	// ExceededQuota is a ResourceQuota, see Quota; SecurityContext (OpenShift) and Admission refuse a
	// request as well. Admission is a webhook or another plugin.
	ExceededQuota   Leaf = "resource-quota"
	SecurityContext Leaf = "security-context"
	Forbidden       Leaf = "forbidden"
	Admission       Leaf = "admission"
	// Invalid, NotFound, Exists and Conflict are errors of the API server about an object.
	Invalid  Leaf = "invalid"
	NotFound Leaf = "not-found"
	Exists   Leaf = "exists"
	Conflict Leaf = "conflict"
)
