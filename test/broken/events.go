package broken

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// eventOf is an event without its object and message: type, reason, component, and the number of
// seconds since it last happened.
type eventOf struct{ kind, reason, from, age string }

// event adds an event about an object. The scheduler writes series of events.k8s.io, others count.
func (b *builder) event(about string, e eventOf, message string) {
	of := b.last[about]
	if of == nil {
		b.fail(errors.New("no such object: " + about))
		return
	}
	hash := fnv.New64()
	fmt.Fprint(hash, e.reason, message, b.world.Age, b.world.Reversed)
	first := b.ago(e.age).Add(-5 * time.Minute)
	object := map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": e.kind, "reason": e.reason, "message": message,
		"metadata": map[string]any{
			"namespace":         cmp.Or(of.GetNamespace(), "default"),
			"name":              fmt.Sprintf("%s.%016x", of.GetName(), hash.Sum64()),
			"creationTimestamp": first.Format(time.RFC3339),
		},
		"involvedObject": map[string]any{
			"apiVersion": of.GetAPIVersion(), "kind": of.GetKind(), "name": of.GetName(),
			"namespace": of.GetNamespace(), "uid": string(of.GetUID()),
		},
		"reportingComponent": e.from,
	}
	const micro = "2006-01-02T15:04:05.000000Z07:00"
	if e.from == "default-scheduler" {
		object["action"], object["eventTime"] = "Scheduling", first.Format(micro)
		object["reportingInstance"] = e.from + "-0"
		object["series"] = map[string]any{
			"count": int64(3), "lastObservedTime": b.ago(e.age).Format(micro),
		}
	} else {
		object["source"] = map[string]any{"component": e.from}
		object["count"], object["firstTimestamp"] = int64(4), first.Format(time.RFC3339)
		object["lastTimestamp"] = b.ago(e.age).Format(time.RFC3339)
	}
	if e.from == "kubelet" {
		node := b.name("node-a")
		object["source"] = map[string]any{"component": e.from, "host": node}
		object["reportingInstance"] = node
	}
	b.made = append(b.made, &unstructured.Unstructured{Object: object})
}

// fails adds the Warning event of a failure, and what follows it if the world wants it.
func (b *builder) fails(about, reason, from, message string) {
	cause, later := "95", "12"
	if b.world.Reversed {
		cause, later = "9", "80"
	}
	b.event(about, eventOf{"Warning", reason, from, cause}, message)
	if !b.world.Aftermath {
		return
	}
	const deadline = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
	switch reason {
	case "ProvisioningFailed":
		b.event(about, eventOf{"Warning", reason, from, later},
			b.text("<provision "+deadline+">", nil))
	case "FailedMount":
		prefix, _, _ := strings.Cut(message, ": ")
		b.event(about, eventOf{"Warning", reason, from, later}, prefix+
			": rpc error: code = Aborted desc = An operation with the given Volume ID "+b.id("volume")+
			" already exists")
		fallthrough
	case "FailedAttachVolume":
		b.event(about, eventOf{"Warning", "FailedMount", "kubelet", later},
			"Unable to attach or mount volumes: "+
				"unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: context "+
				"deadline exceeded")
	case "VolumeFailedDelete", "VolumeResizeFailed":
		b.event(about, eventOf{"Warning", reason, from, later}, deadline)
	}
}
