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
	// "MountVolume.SetUp" or "ControllerPublishVolume".
	Operation string
	// Names are those in the text of the reporter and of the driver, such as the StorageClass.
	Names map[Noun]string
	// Code is the gRPC code, such as "DeadlineExceeded".
	Code string
	// Answer is what a service of OpenStack answered.
	Answer *Answer
	// Leaf is the kind of the error at the end of the chain.
	Leaf Leaf
	// Message is what the last one in the chain said: OpenStack's message, the driver's words, the
	// output of a command, or the error of the network.
	Message string
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

// Component is who reports an error.
type Component string

// Noun is what a name in an error names.
type Noun string

// Leaf is a family of errors.
type Leaf string
