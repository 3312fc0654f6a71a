package generator

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

type usedPort struct {
	part   string
	number int
	use    string
	at     position.Position
}

// usePorts records the ports that driver.yaml allocates by name.
func (a *assembly) usePorts(part string, p ports) {
	byName := p.byName()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a.usePort(part, byName[name], name, a.driver.source(part, "ports", name).position())
	}
}

func (a *assembly) usePort(part string, number int, use string, at position.Position) {
	a.ports = append(a.ports, usedPort{part: part, number: number, use: use, at: at})
}

func (a *assembly) portsOf(part string) []usedPort {
	return slices.DeleteFunc(slices.Clone(a.ports), func(p usedPort) bool { return p.part != part })
}

// checkPorts reports ports that clash inside a pod, and ports that no container serves.
func (a *assembly) checkPorts(part string) error {
	workload := a.workload(part)
	spec := podTemplate(workload).Spec
	a.useContainerPorts(part, workload, spec)
	errs := []error{checkClashes(a.portsOf(part)), checkDeclaredTwice(workload, spec)}
	for _, container := range containers(spec) {
		for _, port := range container.Ports {
			number := int(port.ContainerPort)
			if !serves(spec, number) {
				errs = append(errs, position.ErrorAt(workload.find(strconv.Itoa(number)),
					"container port %q (%d): no container serves it", port.Name, number))
			}
		}
		for _, number := range upstreams(container) {
			if !serves(spec, number) {
				errs = append(errs, position.ErrorAt(workload.find(strconv.Itoa(number)),
					"upstream %d of %q: no container serves it", number, container.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// useContainerPorts records the container ports that driver.yaml does not allocate.
func (a *assembly) useContainerPorts(part string, workload *asset, spec corev1.PodSpec) {
	for _, container := range containers(spec) {
		for _, port := range container.Ports {
			number := int(port.ContainerPort)
			same := func(p usedPort) bool { return p.part == part && p.number == number }
			if !slices.ContainsFunc(a.ports, same) {
				use := fmt.Sprintf("container port %q", port.Name)
				a.usePort(part, number, use, workload.find(strconv.Itoa(number)))
			}
		}
	}
}

// checkClashes reports numbers that are in use twice or are not ports.
func checkClashes(ports []usedPort) error {
	first := map[int]usedPort{}
	var errs []error
	for _, port := range ports {
		if message := validation.IsValidPortNum(port.number); message != nil {
			errs = append(errs, position.ErrorAt(port.at, "port %d (%s): %s", port.number, port.use,
				message[0]))
		}
		other, taken := first[port.number]
		if taken {
			errs = append(errs, position.ErrorAt(port.at, "port clash inside a pod: %d (%s) is taken by %s "+
				"at %s", port.number, port.use, other.use, other.at))
			continue
		}
		first[port.number] = port
	}
	return errors.Join(errs...)
}

// checkDeclaredTwice reports containers that declare the same port or the same port name.
func checkDeclaredTwice(workload *asset, spec corev1.PodSpec) error {
	owners := map[string]string{}
	var errs []error
	for _, container := range containers(spec) {
		for _, port := range container.Ports {
			for _, key := range []string{strconv.Itoa(int(port.ContainerPort)), port.Name} {
				if owner, taken := owners[key]; taken && key != "" {
					errs = append(errs, position.ErrorAt(workload.find(key),
						"port clash inside a pod: %q and %q both declare port %s", owner, container.Name, key))
				}
				owners[key] = container.Name
			}
		}
	}
	return errors.Join(errs...)
}

func containers(spec corev1.PodSpec) []corev1.Container {
	return slices.Concat(spec.InitContainers, spec.Containers)
}

const upstreamFlag = "--upstream="

// serves reports whether the command line or a variable of a container mentions a port, other than
// to forward to it.
func serves(spec corev1.PodSpec, number int) bool {
	mention := regexp.MustCompile(fmt.Sprintf(`(^|[^0-9])%d([^0-9]|$)`, number))
	for _, container := range containers(spec) {
		for _, arg := range slices.Concat(container.Command, container.Args) {
			if !strings.HasPrefix(arg, upstreamFlag) && mention.MatchString(arg) {
				return true
			}
		}
		for _, variable := range container.Env {
			if mention.MatchString(variable.Value) {
				return true
			}
		}
	}
	return false
}

// upstreams returns the ports of its own pod that a container forwards to.
func upstreams(container corev1.Container) []int {
	var numbers []int
	for _, arg := range container.Args {
		address, isUpstream := strings.CutPrefix(arg, upstreamFlag)
		upstream, err := url.Parse(address)
		if !isUpstream || err != nil {
			continue
		}
		local := upstream.Hostname() == "localhost" || upstream.Hostname() == "127.0.0.1"
		if number, err := strconv.Atoi(upstream.Port()); local && err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// checkHostPorts reports ports that two workloads, of any drivers, open on one host's network.
func checkHostPorts(assemblies []*assembly) error {
	type hostPort struct {
		usedPort
		workload string
	}
	first := map[string]hostPort{}
	var errs []error
	for _, a := range assemblies {
		for part := range a.driver.content.parts() {
			if !podTemplate(a.workload(part)).Spec.HostNetwork {
				continue
			}
			for _, port := range a.portsOf(part) {
				mine := hostPort{usedPort: port, workload: a.driver.File + " " + part}
				key := fmt.Sprintf("%s/%d", a.flavour, port.number)
				other, taken := first[key]
				if taken && other.workload != mine.workload {
					errs = append(errs, position.ErrorAt(port.at, "host port clash: %d (%s) is taken by %s at %s",
						port.number, port.use, other.use, other.at))
					continue
				}
				first[key] = mine
			}
		}
	}
	return errors.Join(errs...)
}
