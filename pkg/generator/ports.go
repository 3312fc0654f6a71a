package generator

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// listener is a port which a pod listens on.
type listener struct {
	part   string
	number int
	use    string
	at     Position
}

// listenAt records the ports which driver.yaml allocates to a part by name.
func (a *assembly) listenAt(part string, p *driverPart) {
	if p.Ports.Liveness != 0 {
		a.listen(part, p.Ports.Liveness, "liveness", a.driver.at(part, "ports", "liveness"))
	}
	if p.Ports.Registrar != 0 {
		a.listen(part, p.Ports.Registrar, "registrar", a.driver.at(part, "ports", "registrar"))
	}
}

func (a *assembly) listen(part string, number int, use string, at Position) {
	a.listeners = append(a.listeners, listener{part: part, number: number, use: use, at: at})
}

// checkPorts reports ports which clash inside a pod, and those which the pod declares or forwards to and nobody serves.
func (a *assembly) checkPorts(part string) error {
	workload := a.workload(part)
	template := podTemplate(workload)
	a.listenDeclared(part, workload, template.Spec)
	faults := []error{a.checkClashes(part), checkDeclared(workload, template.Spec)}
	for _, container := range containers(template.Spec) {
		for _, port := range container.Ports {
			number := int(port.ContainerPort)
			if !serves(template.Spec, number) {
				at := workload.locate(strconv.Itoa(number))
				faults = append(faults, faultf(at, "container port %q (%d): nobody serves it", port.Name, number))
			}
		}
		for _, number := range upstreams(container) {
			if !serves(template.Spec, number) {
				at := workload.locate(strconv.Itoa(number))
				faults = append(faults, faultf(at, "upstream %d of %q: nobody serves it", number, container.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// listenDeclared records the container ports which driver.yaml did not allocate.
func (a *assembly) listenDeclared(part string, workload *asset, spec corev1.PodSpec) {
	allocated := map[int]bool{}
	for _, one := range a.listeners {
		allocated[one.number] = allocated[one.number] || one.part == part
	}
	for _, container := range containers(spec) {
		for _, port := range container.Ports {
			if number := int(port.ContainerPort); !allocated[number] {
				allocated[number] = true
				use := fmt.Sprintf("container port %q", port.Name)
				a.listen(part, number, use, workload.locate(strconv.Itoa(number)))
			}
		}
	}
}

// checkClashes reports numbers that one part uses twice, and those that are no ports.
func (a *assembly) checkClashes(part string) error {
	first := map[int]listener{}
	var faults []error
	for _, one := range a.listeners {
		if one.part != part {
			continue
		}
		if message := validation.IsValidPortNum(one.number); message != nil {
			faults = append(faults, faultf(one.at, "port %d (%s): %s", one.number, one.use, message[0]))
		}
		other, taken := first[one.number]
		if taken {
			faults = append(faults, faultf(one.at, "port clash inside a pod: %d (%s) is taken by %s at %s",
				one.number, one.use, other.use, other.at))
			continue
		}
		first[one.number] = one
	}
	return errors.Join(faults...)
}

// checkDeclared reports containers which declare one port, or one name, twice.
func checkDeclared(workload *asset, spec corev1.PodSpec) error {
	owners := map[string]string{}
	var faults []error
	for _, container := range containers(spec) {
		for _, port := range container.Ports {
			for _, key := range []string{strconv.Itoa(int(port.ContainerPort)), port.Name} {
				if owner, taken := owners[key]; taken && key != "" {
					faults = append(faults, faultf(workload.locate(key),
						"port clash inside a pod: %q and %q both declare port %s", owner, container.Name, key))
				}
				owners[key] = container.Name
			}
		}
	}
	return errors.Join(faults...)
}

func containers(spec corev1.PodSpec) []corev1.Container {
	return append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...)
}

const upstreamFlag = "--upstream="

// serves tells whether a container's command line mentions the port, other than to forward to it.
func serves(spec corev1.PodSpec, number int) bool {
	mention := regexp.MustCompile(fmt.Sprintf(`(^|[^0-9])%d([^0-9]|$)`, number))
	for _, container := range containers(spec) {
		for _, arg := range append(append([]string{}, container.Command...), container.Args...) {
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

// upstreams returns the ports of the same pod which a container forwards to.
func upstreams(container corev1.Container) []int {
	local := regexp.MustCompile(`^` + upstreamFlag + `https?://(?:127\.0\.0\.1|localhost):(\d+)`)
	var numbers []int
	for _, arg := range container.Args {
		if match := local.FindStringSubmatch(arg); match != nil {
			number, _ := strconv.Atoi(match[1]) // the pattern admits digits only
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// checkHosts reports ports which two workloads, of any drivers, open on the network of one host.
func checkHosts(assemblies []*assembly) error {
	type taken struct {
		listener
		workload string
	}
	first := map[string]taken{}
	var faults []error
	for _, a := range assemblies {
		for _, one := range a.hostListeners() {
			mine := taken{listener: one, workload: a.driver.file + " " + one.part}
			key := fmt.Sprintf("%s/%d", a.flavour, one.number)
			other, clash := first[key]
			if clash && other.workload != mine.workload {
				faults = append(faults, faultf(one.at, "host port clash: %d (%s) is taken by %s at %s",
					one.number, one.use, other.use, other.at))
				continue
			}
			first[key] = mine
		}
	}
	return errors.Join(faults...)
}

// hostListeners returns what the assembly's pods open on their host's network.
func (a *assembly) hostListeners() []listener {
	var open []listener
	for part := range a.driver.content.parts() {
		if template := podTemplate(a.workload(part)); !template.Spec.HostNetwork {
			continue
		}
		for _, one := range a.listeners {
			if one.part == part {
				open = append(open, one)
			}
		}
	}
	return open
}
