package wire

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultPort is the port on which a sidecar serves unless another process uses it.
const DefaultPort = 9070

const scheme = "pod"

// MaxEndpoint is the maximum length of the text of an Endpoint in bytes.
const MaxEndpoint = len(scheme+"://") + validation.DNS1123SubdomainMaxLength + len(".") +
	validation.DNS1123LabelMaxLength + len(":65535")

// Endpoint is the address of a sidecar: a port of a pod.
type Endpoint struct {
	Pod, Namespace string
	Port           uint16
}

// String returns pod://<pod>.<namespace>:<port>.
func (e Endpoint) String() string {
	host := net.JoinHostPort(e.Pod+"."+e.Namespace, strconv.FormatUint(uint64(e.Port), 10))
	return scheme + "://" + host
}

// ParseEndpoint parses pod://<pod>.<namespace>:<port>. The name of a pod may contain dots.
func ParseEndpoint(text string) (Endpoint, error) {
	if len(text) > MaxEndpoint {
		return Endpoint{}, fmt.Errorf("endpoint %.40q... has more than %d bytes", text, MaxEndpoint)
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != scheme || parsed.Host == "" ||
		text != scheme+"://"+parsed.Host {
		return Endpoint{}, fmt.Errorf("endpoint %q is not pod://<pod>.<namespace>:<port>", text)
	}
	host := parsed.Hostname()
	dot := strings.LastIndex(host, ".")
	if dot < 0 {
		return Endpoint{}, fmt.Errorf("endpoint %q names no namespace", text)
	}
	port, err := strconv.ParseUint(parsed.Port(), 10, 16)
	if err != nil || port == 0 {
		return Endpoint{}, fmt.Errorf("endpoint %q contains no port between 1 and 65535", text)
	}
	e := Endpoint{Pod: host[:dot], Namespace: host[dot+1:], Port: uint16(port)}
	if len(validation.IsDNS1123Subdomain(e.Pod)) > 0 ||
		len(validation.IsDNS1123Label(e.Namespace)) > 0 {
		return Endpoint{}, fmt.Errorf("endpoint %q contains no names of a pod and a namespace", text)
	}
	return e, nil
}
