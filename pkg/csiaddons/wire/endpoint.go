package wire

import (
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultPort is the port on which a sidecar serves unless another process uses it.
const DefaultPort = 9070

// MaxEndpoint is the maximum length of the text of an Endpoint in bytes.
const MaxEndpoint = len("pod://") + validation.DNS1123SubdomainMaxLength + len(".") +
	validation.DNS1123LabelMaxLength + len(":65535")

// Endpoint is the address of a sidecar: a port of a pod.
type Endpoint struct {
	Pod, Namespace string
	Port           uint16
}

// String returns pod://<pod>.<namespace>:<port>.
func (e Endpoint) String() string {
	return fmt.Sprintf("pod://%s.%s:%d", e.Pod, e.Namespace, e.Port)
}

// ParseEndpoint parses pod://<pod>.<namespace>:<port>. The name of a pod may contain dots.
func ParseEndpoint(text string) (Endpoint, error) {
	parts := regexp.MustCompile(`^pod://(.+)\.([^.]+):(\d{1,5})$`).FindStringSubmatch(text)
	if parts != nil && len(validation.IsDNS1123Subdomain(parts[1])) == 0 &&
		len(validation.IsDNS1123Label(parts[2])) == 0 {
		port, err := strconv.ParseUint(parts[3], 10, 16)
		if err == nil && port > 0 {
			return Endpoint{Pod: parts[1], Namespace: parts[2], Port: uint16(port)}, nil
		}
	}
	return Endpoint{}, fmt.Errorf("endpoint %.*q is not pod://<pod>.<namespace>:<port>", MaxEndpoint,
		text)
}
