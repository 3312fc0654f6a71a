package view

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// About describes a devcluster.
type About struct {
	Flavour   string
	Operators []fixtures.Operator
	// Dir contains all state.
	Dir paths.Dir
	// Command is the program with the flags that select this devcluster.
	Command string
}

// Live shows the state of the drivers on a whole terminal. It is safe for concurrent use.
type Live struct {
	mu      sync.Mutex
	out     io.Writer
	program *tea.Program
	runs    bool
}

// NewLive returns a Live for a terminal.
func NewLive(about About, in io.Reader, out io.Writer) *Live {
	now := time.Now()
	return &Live{out: out, program: tea.NewProgram(
		&model{about: about, start: now, now: now},
		tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(),
	)}
}

// Run takes the terminal until the user quits or ctx ends. Then the terminal is as before.
func (l *Live) Run(ctx context.Context) error {
	l.setRuns(true)
	defer l.setRuns(false)
	stop := context.AfterFunc(ctx, l.program.Quit)
	defer stop()
	if _, err := l.program.Run(); err != nil {
		return fmt.Errorf("showing the view: %w", err)
	}
	return nil
}

func (l *Live) setRuns(runs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = runs
}

// Write implements io.Writer. While Run runs, the text becomes an event.
func (l *Live) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.runs {
		return l.out.Write(text)
	}
	l.program.Send(Event{At: time.Now(), Driver: "devcluster", Text: string(text)})
	return len(text), nil
}

// Show shows new states while Run runs.
func (l *Live) Show(clusters []Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs {
		l.program.Send(clusters)
	}
}

// The pages are named after their keys.
const (
	pageConditions = "c"
	pageEvents     = "e"
	pageLogs       = "l"
)

const maxNotes = 100

type model struct {
	about         About
	width, height int
	start, now    time.Time
	clusters      []Cluster
	notes         []Event  // messages of the devcluster
	logs          []string // the end of the log of each operator
	guest         string   // the selected guest cluster
	page          string   // empty for the overview
	offset        int
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(now time.Time) tea.Msg { return now })
}

// Update implements tea.Model.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case time.Time:
		m.now = message
		return m, tea.Batch(tick(), m.readLogs())
	case []Cluster:
		for i, c := range message {
			if c.Err != nil && i < len(m.clusters) { // the last state that is known
				message[i].State, message[i].Events = m.clusters[i].State, m.clusters[i].Events
			}
		}
		m.clusters = message
	case Event:
		m.notes = append(m.notes[max(0, len(m.notes)-maxNotes):], message)
	case []string:
		m.logs = message
	case tea.KeyPressMsg:
		return m, m.press(message.String())
	}
	return m, nil
}

func (m *model) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case pageConditions, pageEvents, pageLogs:
		m.page, m.offset = key, 0
		return m.readLogs()
	case "esc":
		m.page = ""
	case "g":
		if len(m.clusters) > 1 {
			shown := m.shown().Guest
			i := slices.IndexFunc(m.clusters, func(c Cluster) bool { return c.Guest == shown })
			m.guest, m.offset, m.logs = m.clusters[(i+1)%len(m.clusters)].Guest, 0, nil
		}
		return m.readLogs()
	case "up":
		m.offset--
	case "down":
		m.offset++
	case "pgup":
		m.offset -= m.height / 2
	case "pgdown", "space":
		m.offset += m.height / 2
	}
	return nil
}

// readLogs reads the ends of the logs that are shown.
func (m *model) readLogs() tea.Cmd {
	if m.page != pageLogs {
		return nil
	}
	files := m.logFiles()
	return func() tea.Msg {
		var ends []string
		for _, file := range files {
			ends = append(ends, process.Tail(file))
		}
		return ends
	}
}

func (m *model) dir(c Cluster) paths.Dir {
	if c.Guest == "" {
		return m.about.Dir
	}
	return m.about.Dir.Guest(c.Guest)
}

func (m *model) logFiles() []string {
	var files []string
	for _, o := range m.about.Operators {
		files = append(files, m.dir(m.shown()).OperatorLog(o.Program))
	}
	return files
}

// shown returns the cluster that the user selected, or the first that is not ready.
func (m *model) shown() Cluster {
	var first Cluster
	for i := len(m.clusters) - 1; i >= 0; i-- {
		c := m.clusters[i]
		if c.Guest == m.guest {
			return c
		}
		if first.Guest == "" || !judge(c).isReady || judge(first).isReady {
			first = c
		}
	}
	return first
}
