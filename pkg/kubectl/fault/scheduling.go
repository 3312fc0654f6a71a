package fault

import (
	"strconv"
	"strings"
)

// scheduling parses what the scheduler says: "0/5 nodes are available: 2 Insufficient cpu, 3 ....".
func (p *parser) scheduling(text string) bool {
	count, said, found := strings.Cut(text, " nodes are available: ")
	all, err := strconv.Atoi(strings.TrimPrefix(count, "0/"))
	if !found || err != nil {
		return false
	}
	p.reports(Scheduler, "schedule")
	p.Scheduling = &Scheduling{Nodes: all}
	said = sentence(said)
	for rest := said; rest != ""; {
		reason, after := cutReason(rest)
		number, why, _ := strings.Cut(reason, " ")
		nodes, err := strconv.Atoi(number)
		if err != nil {
			break
		}
		p.Scheduling.Reasons = append(p.Scheduling.Reasons, Reason{nodes, why})
		rest = after
	}
	if m, found := match(`persistentvolumeclaim "{claim}" {}`, said); found {
		p.name(Claim, m.names[0].name)
	}
	p.end(Unschedulable, said)
	return true
}

// sentence returns the first sentence. Those in the braces of taints do not count.
func sentence(text string) string {
	depth := 0
	for i, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case depth <= 0 && strings.HasPrefix(text[i:], ". "):
			return text[:i]
		}
	}
	return strings.TrimSuffix(text, ".")
}

// cutReason cuts one reason. The next begins with a number.
func cutReason(text string) (reason, rest string) {
	for i := range text {
		after, found := strings.CutPrefix(text[i:], ", ")
		if found && after != "" && after[0] >= '1' && after[0] <= '9' {
			return text[:i], after
		}
	}
	return text, ""
}
