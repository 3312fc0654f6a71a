package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

const (
	// The overview shows at most messageRows of a message, and extraRows of the guest clusters, of the
	// StorageClasses of a driver and so on. It reserves eventRows for events.
	extraRows   = 2
	messageRows = 3
	eventRows   = 2
	// ellipsis ends what is cut.
	ellipsis = "..."
)

// View implements tea.Model.
func (m *model) View() tea.View {
	var lines []string
	for _, r := range m.rows() {
		text := strings.ReplaceAll(printable(r.text), "\n", " ")
		lines = append(lines, r.style.Styled(ansi.Truncate(text, m.width, ellipsis)))
	}
	view := tea.NewView(strings.Join(lines[:min(len(lines), m.height)], "\n"))
	view.AltScreen = true
	return view
}

func (m *model) rows() []row {
	c := m.shown()
	head, foot := m.head(c), m.foot(c)
	space := max(0, m.height-len(head)-len(foot))
	var body []row
	switch m.page {
	case pageConditions:
		all := append(m.findings(c, 0), m.expected(c))
		body = m.scroll("CONDITIONS", slices.Concat(all...), space)
	case pageEvents:
		body = m.scroll("EVENTS", m.events(c, 0), space)
	case pageLogs:
		body = m.logRows(space)
	default:
		body = m.overview(c, space)
	}
	for len(body) < space {
		body = append(body, row{})
	}
	return slices.Concat(head, body[:space], foot)
}

// scroll returns the part of a page that the user selected.
func (m *model) scroll(title string, all []row, space int) []row {
	m.offset = max(0, min(m.offset, len(all)-max(space-1, 1)))
	title = fmt.Sprintf("%s, to line %d of %d", title, min(len(all), m.offset+space-1), len(all))
	return append([]row{{title, bold()}}, all[m.offset:]...)
}

// head returns what runs, and whether it is ready.
func (m *model) head(c Cluster) []row {
	drivers := make([]string, 0, len(m.about.Operators))
	for _, o := range m.about.Operators {
		drivers = append(drivers, o.Driver)
	}
	left := strings.Join([]string{"devcluster", m.about.Flavour, strings.Join(drivers, " ")}, "   ")
	right := duration.HumanDuration(m.now.Sub(m.start)) + "   " + m.now.Format(time.TimeOnly)
	gap := max(1, m.width-ansi.StringWidth(left)-ansi.StringWidth(right))
	result := judge(c)
	rows := []row{
		{left + strings.Repeat(" ", gap) + right, bold()},
		{column(result.title()) + result.text, style(result.severity)},
	}
	if len(m.clusters) > 1 {
		rows = append(rows, m.guests(c)...)
	}
	return rows
}

func (m *model) guests(shown Cluster) []row {
	var cells []string
	for _, c := range m.clusters {
		cell := c.Guest + " " + strings.ToLower(judge(c).title())
		if c.Guest == shown.Guest {
			cell = "[" + cell + "]"
		}
		cells = append(cells, cell)
	}
	return cut(flow(column("GUESTS"), cells, m.width), extraRows)
}

// foot returns what the user can do.
func (m *model) foot(c Cluster) []row {
	use := m.commands("USE", "export KUBECONFIG="+m.about.Dir.AdminKubeconfig())
	if c.Guest != "" {
		use = append(m.commands("MANAGEMENT", "export KUBECONFIG="+m.about.Dir.AdminKubeconfig()),
			m.commands("GUEST", "export KUBECONFIG="+m.dir(c).AdminKubeconfig())...)
	}
	keys := []string{"c conditions", "e events", "l logs"}
	if m.page != "" {
		keys = []string{"esc back", "up, down scroll"}
	}
	if len(m.clusters) > 1 {
		keys = append(keys, "g next guest cluster")
	}
	return slices.Concat(m.commands("TRY", m.attempts(c)...), use,
		flow(column("KEYS"), append(keys, "q quit"), m.width))
}

// attempts returns commands that end an outage, or that show what the operators do.
func (m *model) attempts(c Cluster) []string {
	for _, d := range c.State.Drivers {
		for _, f := range d.Findings {
			if f.Runbook == "openstackcsicloudunreachable" {
				return []string{m.about.Command + " cloud recover"}
			}
		}
	}
	commands := []string{m.about.Command + " cloud outage 503"}
	for _, o := range m.about.Operators {
		if o.ClassPerShareType {
			commands = append(commands, m.about.Command+" cloud share-type add gold")
		}
	}
	return commands
}

// overview returns what is wrong, then workloads and StorageClasses, then the newest events. The
// worst problem is visible, however small the terminal is.
func (m *model) overview(c Cluster, space int) []row {
	state := slices.Concat(
		m.section("WORKLOADS", c, (*Driver).workloads), m.section("CLASSES", c, (*Driver).classes),
		cut(flow(column("ADDONS"), c.State.Addons, m.width), extraRows))
	events, findings := m.events(c, 1), m.findings(c, messageRows)
	left := space - len(state) - min(len(events), eventRows)
	if len(findings) > 0 {
		left = max(left, len(findings[0])+1)
	}
	rows := append(fit(findings, left), state...)
	return append(rows, events[:max(0, min(len(events), space-len(rows)))]...)
}

// section returns cells of each driver.
func (m *model) section(label string, c Cluster, cells func(*Driver) []string) []row {
	width := 0
	for _, o := range m.about.Operators {
		width = max(width, len(o.Driver))
	}
	var rows []row
	for _, d := range c.State.Drivers {
		title := fmt.Sprintf("%s%-*s  ", column(label), width, d.Name)
		if found := flow(title, cells(&d), m.width); len(found) > 0 {
			rows, label = append(rows, cut(found, extraRows)...), ""
		}
	}
	return rows
}

// findings returns what is wrong, the worst first. A limit of 0 means whole messages.
func (m *model) findings(c Cluster, limit int) [][]row {
	var blocks [][]row
	add := func(severity diagnosis.Severity, message string, title ...string) {
		rows := flow(mark(severity), title, m.width)
		for i := range rows {
			rows[i].style = style(severity)
		}
		blocks = append(blocks, append(rows, m.message(message, limit)...))
	}
	switch {
	case c.Err != nil:
		add(diagnosis.Problem, c.Err.Error(), "The cluster does not answer, so this may be out of date")
	case len(c.State.Drivers) == 0:
		add(diagnosis.Progress, "", "Reading the state of the drivers")
	}
	for _, severity := range diagnosis.Severities() {
		for _, d := range c.State.Drivers {
			for _, f := range d.Findings {
				if f.Severity != severity {
					continue
				}
				title := []string{d.qualified(f.Type), f.Reason}
				if !f.Since.IsZero() {
					title = append(title, duration.HumanDuration(m.now.Sub(f.Since.Time)))
				}
				add(severity, f.Message, title...)
			}
		}
	}
	return blocks
}

// expected returns the conditions without a finding.
func (m *model) expected(c Cluster) []row {
	var rows []row
	for _, d := range c.State.Drivers {
		for _, condition := range d.Conditions {
			if diagnosis.SeverityOf(condition.Type, condition.Status) == "" {
				text := " ok " + d.qualified(condition.Type) + "=" + string(condition.Status)
				rows = append(rows, row{text: text})
			}
		}
	}
	return rows
}

// events returns the events of the operators and of the devcluster, the newest first.
func (m *model) events(c Cluster, limit int) []row {
	all := slices.Concat(m.notes, c.Events)
	slices.SortStableFunc(all, func(a, b Event) int { return b.At.Compare(a.At) })
	var rows []row
	for i, e := range all {
		label := ""
		if i == 0 && limit > 0 {
			label = "EVENTS"
		}
		text := strings.Join([]string{e.At.Format(time.TimeOnly), e.Driver, e.Text}, " ")
		text = strings.Join(strings.Fields(text), " ")
		if limit > 0 {
			rows = append(rows, row{text: column(label) + text})
		} else {
			rows = append(rows, m.message(text, 0)...)
		}
	}
	return rows
}

func (m *model) logRows(space int) []row {
	var rows []row
	files := m.logFiles()
	for i, file := range files {
		rows = append(rows, m.commands("LOG", file)...)
		text := "no log yet; the log of a pod: kubectl logs deployment/" + m.about.Operators[i].Name
		if i < len(m.logs) && m.logs[i] != "" {
			text = m.logs[i]
		}
		var lines []row
		for line := range strings.SplitSeq(ansi.Hardwrap(printable(text), m.width, true), "\n") {
			lines = append(lines, row{text: line})
		}
		limit := max(0, (i+1)*space/len(files)-len(rows))
		rows = append(rows, lines[max(0, len(lines)-limit):]...)
	}
	return rows
}
