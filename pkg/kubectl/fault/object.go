package fault

import (
	"strconv"
	"strings"
)

// object parses what the API server says about an object: persistentvolumeclaims "data" is
// forbidden: ...
func (p *parser) object(text string) bool {
	if rest, found := strings.CutPrefix(text, "Operation cannot be fulfilled on "); found {
		return p.named(rest, ": ") != "" && p.end(Conflict, text)
	}
	if m, found := match(`admission webhook "{webhook}" denied the request: {error}`, text); found {
		p.name(Webhook, m.names[0].name)
		return p.end(Admission, m.inner)
	}
	switch rest := p.named(text, " "); {
	case rest == "not found":
		return p.end(NotFound, text)
	case rest == "already exists":
		return p.end(Exists, text)
	case strings.HasPrefix(rest, "is forbidden: "):
		return p.forbidden(strings.TrimPrefix(rest, "is forbidden: "))
	case strings.HasPrefix(rest, "is invalid: "):
		return p.end(Invalid, strings.TrimPrefix(rest, "is invalid: "))
	}
	return false
}

// named cuts a resource, the name of an object in quotes and what follows it.
func (p *parser) named(text, after string) string {
	resource, rest, found := strings.Cut(text[:min(len(text), nameLimit)], ` "`)
	name, _, ended := strings.Cut(rest, `"`+after)
	if !found || !ended || strings.ContainsAny(resource, " :") {
		return ""
	}
	rest = text[len(resource)+len(name)+len(` ""`)+len(after):]
	for _, known := range []string{"not found", "already exists", "is forbidden: ", "is invalid: "} {
		if after != " " || strings.HasPrefix(rest, known) {
			p.name(Resource, resource)
			p.name(Name, name)
			p.reports(APIServer, "")
			return rest
		}
	}
	return ""
}

// forbidden parses why admission refuses a request.
func (p *parser) forbidden(why string) bool {
	for _, known := range []struct {
		leaf   Leaf
		format string
	}{
		{PodSecurity, `violates PodSecurity "{policy}": {error}`},
		{SecurityContext, "unable to validate against any security context constraint: {error}"},
		{LimitRange, "maximum {} usage per {} is {error}"},
		{LimitRange, "minimum {} usage per {} is {error}"},
		{LimitRange, "[maximum {} usage per {} is {error}"},
		{LimitRange, "[minimum {} usage per {} is {error}"},
		{Forbidden, `User "{}" cannot {error}`},
	} {
		if m, found := match(known.format, why); found {
			for _, n := range m.names {
				p.name(n.noun, n.name)
			}
			return p.end(known.leaf, why)
		}
	}
	if m, found := match("exceeded quota: {}, requested: {}, used: {}, limited: {error}", why); found {
		p.Quota = &Quota{
			m.names[0].name, amounts(m.names[1].name), amounts(m.names[2].name), amounts(m.inner),
		}
		return p.end(ExceededQuota, why)
	}
	return p.end(Admission, why)
}

// amounts parses "requests.storage=40Gi,persistentvolumeclaims=1".
func amounts(text string) map[string]string {
	amounts := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if resource, amount, found := strings.Cut(part, "="); found {
			amounts[strings.TrimSpace(resource)] = amount
		}
	}
	return amounts
}

// scheduling parses what the scheduler says: "0/5 nodes are available: 2 Insufficient cpu, 3 ....".
func (p *parser) scheduling(text string) bool {
	count, said, found := strings.Cut(text, " nodes are available: ")
	all, err := strconv.Atoi(strings.TrimPrefix(count, "0/"))
	if !found || err != nil {
		return false
	}
	p.reports(Scheduler, "schedule")
	p.Scheduling = &Scheduling{Nodes: all}
	if i := sentence(said); i >= 0 {
		said = said[:i]
	}
	for rest := strings.TrimSuffix(said, "."); rest != ""; {
		reason, after := cutReason(rest)
		number, why, _ := strings.Cut(reason, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			break
		}
		p.Scheduling.Reasons = append(p.Scheduling.Reasons, Reason{n, why})
		rest = after
	}
	return p.end(Unschedulable, strings.TrimSuffix(said, "."))
}

// sentence returns where the first sentence ends, outside of the braces of taints.
func sentence(text string) int {
	inside := 0
	for i := 0; i+1 < len(text); i++ {
		switch {
		case text[i] == '{':
			inside++
		case text[i] == '}':
			inside--
		case inside <= 0 && text[i] == '.' && text[i+1] == ' ':
			return i
		}
	}
	return -1
}

// cutReason cuts one reason: the next begins with a number.
func cutReason(text string) (reason, rest string) {
	for i := 0; i+2 < len(text); i++ {
		if text[i] == ',' && text[i+1] == ' ' && text[i+2] >= '1' && text[i+2] <= '9' {
			return text[:i], text[i+2:]
		}
	}
	return text, ""
}
