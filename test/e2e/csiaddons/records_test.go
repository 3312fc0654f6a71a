//go:build e2e

package csiaddons

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	records = pods.DataPath + "/records"
	// writeRecords appends records to a file: random text and its checksum, one per line. It
	// synchronizes each record with the storage, and then reports the checksum to the ledger. A loss
	// of power can leave a part of a record, so it starts on a new line.
	writeRecords = `set -eu
trap 'exit 0' TERM
if [ -e ` + records + ` ]; then echo >> ` + records + `; fi
{
echo %s
while :; do
  text=$(head -c 3000 /dev/urandom | base64 -w 0)
  sum=$(echo -n "$text" | sha256sum | cut -d ' ' -f 1)
  echo "$text $sum" | dd of=` + records + ` oflag=append conv=notrunc,fsync status=none
  echo "$sum"
  sleep 0.1
done
} | nc %s &
wait $!
`
)

// ledger contains the records that writers have reported. It is not on any node, so that it loses
// nothing with them.
type ledger struct {
	address string // for nc

	mu      sync.Mutex
	writers map[string]*reported
}

// reported is what a writer has reported: the checksums of its records, the time of the last one,
// and the longest time between two. starts is how often the writer has started.
type reported struct {
	sums   []string
	last   time.Time
	pause  time.Duration
	starts int
}

// openLedger listens for writers until the test ends.
func (x *test) openLedger() *ledger {
	x.T.Helper()
	server, err := url.Parse(x.Cluster.Config.Host) // an address of this machine that pods reach
	x.Must(err)
	listener, err := (&net.ListenConfig{}).Listen(x.T.Context(), "tcp",
		net.JoinHostPort(server.Hostname(), "0"))
	x.Must(err)
	x.T.Cleanup(func() { _ = listener.Close() })
	host, port, err := net.SplitHostPort(listener.Addr().String())
	x.Must(err)
	l := &ledger{address: host + " " + port, writers: map[string]*reported{}}
	go func() {
		for {
			writer, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			go l.read(writer)
		}
	}()
	return l
}

// read reads the reports of one start of a writer: its name, and then checksums.
func (l *ledger) read(writer net.Conn) {
	defer writer.Close()
	var name string
	for lines := bufio.NewScanner(writer); lines.Scan(); {
		l.mu.Lock()
		switch now := time.Now(); {
		case name == "":
			name = lines.Text()
			if l.writers[name] == nil {
				l.writers[name] = &reported{last: now}
			}
			l.writers[name].starts++
		case len(lines.Text()) == hex.EncodedLen(sha256.Size): // a lost node can end within a line
			w := l.writers[name]
			w.sums, w.pause, w.last = append(w.sums, lines.Text()), max(w.pause, now.Sub(w.last)), now
		}
		l.mu.Unlock()
	}
}

// forgetPauses begins to measure pauses again.
func (l *ledger) forgetPauses() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writers {
		w.pause = 0
	}
}

// of returns what a writer has reported.
func (l *ledger) of(name string) reported {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.writers[name]; w != nil {
		return *w
	}
	return reported{}
}

// mustProgress waits until all writers report more records, and returns the longest time that any
// of them has written nothing.
func (f *faults) mustProgress(what string) time.Duration {
	f.T.Helper()
	before, pause := map[string]int{}, time.Duration(0)
	for _, name := range f.writers {
		before[name] = len(f.ledger.of(name).sums)
	}
	for _, name := range f.writers {
		f.Eventually(what+": writer "+name+" writes", func() error {
			now := f.ledger.of(name)
			if len(now.sums) < before[name]+3 {
				return fmt.Errorf("it has written %d records after %d", len(now.sums), before[name])
			}
			pause = max(pause, now.pause)
			return nil
		})
	}
	return pause
}

// startWriter creates a StatefulSet with one pod that writes records, preferably on a node.
func (f *faults) startWriter(name string, of pods.Class, node string) {
	f.T.Helper()
	set := pods.StatefulSet(name, fmt.Sprintf(writeRecords, name, f.ledger.address), of)
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			},
		}},
	}}
	f.CreateStatefulSet(set)
	f.writers = append(f.writers, name)
}

// mustHaveWritten ends the pod of a writer, and compares the volume with the ledger in a new pod.
func (f *faults) mustHaveWritten(name string) {
	f.T.Helper()
	f.Must(f.RemoveStatefulSet(f.T.Context(), name))
	reader := name + "-reader"
	f.Create(reader, pods.Spec(sleep, "data-"+name+"-0"))
	f.running(reader)
	content, err := f.exec(pods.Namespace, reader, "main", "cat", records)
	f.Must(err)
	w := f.ledger.of(name)
	f.Must(w.compare(content))
	f.T.Logf("writer %s: all %d records are there, after %d starts", name, len(w.sums), w.starts)
}

// compare returns an error unless the file contains each record that the writer has reported, and
// at most one incomplete record for each of its starts.
func (w reported) compare(content string) error {
	intact, incomplete := map[string]bool{}, 0
	for line := range strings.Lines(content) {
		text, sum, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch actual := sha256.Sum256([]byte(text)); {
		case line == "\n":
		case hex.EncodeToString(actual[:]) != sum:
			incomplete++
		case intact[sum]:
			return fmt.Errorf("record %s exists twice", sum)
		default:
			intact[sum] = true
		}
	}
	var errs []error
	for number, sum := range w.sums {
		if !intact[sum] {
			errs = append(errs, fmt.Errorf("record %d of %d is lost: %s", number+1, len(w.sums), sum))
		}
	}
	if incomplete > w.starts {
		errs = append(errs, fmt.Errorf("%d records are damaged after %d starts", incomplete, w.starts))
	}
	return errors.Join(errs...)
}
