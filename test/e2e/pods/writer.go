package pods

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	records = DataPath + "/records"
	// writeRecords appends records to a file: random text and its checksum, one per line. It
	// synchronizes each record with the storage, and then reports the checksum to this process. A loss
	// of power can leave a part of a record, so it starts on a new line. A failed write ends it.
	writeRecords = `set -eu
trap 'exit 0' TERM
if [ -e ` + records + ` ]; then echo >> ` + records + `; fi
while :; do
  text=$(head -c 3000 /dev/urandom | base64 -w 0)
  sum=$(echo -n "$text" | sha256sum | cut -d ' ' -f 1)
  echo "$text $sum" | dd of=` + records + ` oflag=append conv=notrunc,fsync status=none
  echo "$sum"
  sleep 0.1
done | nc %s &
wait $!
`
	// longestPause is the longest time between two records without a defect, on a busy machine.
	longestPause = time.Minute
)

// Writer is a pod that appends records to a volume. This process knows what it has written, so no
// node can lose it.
type Writer struct {
	// Pod and Claim are the names of the pod and of its claim.
	Pod, Claim string

	test   *Test
	remove func() error // the pod

	mu sync.Mutex
	// sums are the checksums of the records, last is the time of the last one, pause the longest time
	// between two. starts is how often the writer has started.
	sums   []string
	last   time.Time
	pause  time.Duration
	starts int
}

// Write creates a claim and a pod that writes records to it, and waits until it does.
func (x *Test) Write(name string, of Class) *Writer {
	x.T.Helper()
	w := &Writer{Pod: name, Claim: name, test: x}
	w.remove = func() error { return x.Remove(x.T.Context(), name) }
	script := w.listen()
	x.Claim(name, ClaimSpec(of))
	x.Create(name, Spec(script, name))
	w.MustProgress()
	return w
}

// WriteInStatefulSet is Write for the only pod of a StatefulSet. Without a node, any may run it.
func (x *Test) WriteInStatefulSet(name string, of Class, preferred string) *Writer {
	x.T.Helper()
	w := &Writer{Pod: name + "-0", Claim: "data-" + name + "-0", test: x}
	w.remove = func() error { return x.RemoveStatefulSet(x.T.Context(), name) }
	set := StatefulSet(name, w.listen(), of)
	if preferred != "" {
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
						Values: []string{preferred},
					}},
				},
			}},
		}}
	}
	x.CreateStatefulSet(set)
	w.MustProgress()
	return w
}

// listen reads the reports of the writer until the test ends. It returns the script of the pod.
func (w *Writer) listen() string {
	x := w.test
	x.T.Helper()
	server, err := url.Parse(x.Cluster.Config.Host) // an address of this machine that pods reach
	x.Must(err)
	listener, err := (&net.ListenConfig{}).Listen(x.T.Context(), "tcp",
		net.JoinHostPort(server.Hostname(), "0"))
	x.Must(err)
	x.T.Cleanup(func() { _ = listener.Close() })
	host, port, err := net.SplitHostPort(listener.Addr().String())
	x.Must(err)
	go func() {
		for {
			start, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			go w.read(start)
		}
	}()
	return fmt.Sprintf(writeRecords, host+" "+port)
}

// read reads the checksums that one start of the writer reports.
func (w *Writer) read(start net.Conn) {
	defer start.Close()
	w.mu.Lock()
	w.starts++
	w.mu.Unlock()
	for lines := bufio.NewScanner(start); lines.Scan(); {
		if len(lines.Text()) != hex.EncodedLen(sha256.Size) {
			continue // a lost node can end within a line
		}
		w.mu.Lock()
		now := time.Now()
		if len(w.sums) > 0 {
			w.pause = max(w.pause, now.Sub(w.last))
		}
		w.sums, w.last = append(w.sums, lines.Text()), now
		w.mu.Unlock()
	}
}

// state returns the number of records, the longest pause and the number of starts.
func (w *Writer) state() (int, time.Duration, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sums), w.pause, w.starts
}

// ForgetPause begins to measure pauses again.
func (w *Writer) ForgetPause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause = 0
}

// MustProgress waits until the pod has written more records, and returns the longest time in which
// it has written nothing.
func (w *Writer) MustProgress() time.Duration {
	w.test.T.Helper()
	before, _, _ := w.state()
	w.test.Eventually("pod "+w.Pod+" writes", func() error {
		now, _, _ := w.state()
		if now >= before+3 {
			return nil
		}
		pod, err := w.test.Pods().Get(w.test.T.Context(), w.Pod, metav1.GetOptions{})
		if err == nil {
			err = w.test.Describe(pod)
		}
		return fmt.Errorf("it has written %d records after %d: %w", now, before, err)
	})
	_, pause, _ := w.state()
	return pause
}

// MustBeUndisturbed checks that the pod still writes, was not restarted, and made no long pause.
func (w *Writer) MustBeUndisturbed() {
	w.test.T.Helper()
	w.MustProgress()
	number, pause, starts := w.state()
	w.test.T.Logf("pod %s wrote %d records, with a pause of at most %v", w.Pod, number,
		pause.Round(time.Millisecond))
	assert.Check(w.test.T, starts == 1, "pod %s was replaced or restarted: it started %d times", w.Pod,
		starts)
	assert.Check(w.test.T, pause <= longestPause, "pod %s wrote nothing for %v", w.Pod, pause)
}

// Node returns the name of the node of the pod.
func (w *Writer) Node() string {
	w.test.T.Helper()
	return w.test.Running(w.Pod).Spec.NodeName
}

// MustHaveWritten ends the pod, and checks the records in a new pod.
func (w *Writer) MustHaveWritten() {
	x := w.test
	x.T.Helper()
	x.Must(w.remove())
	reader := w.Claim + "-reader"
	x.Create(reader, Spec(Sleep, w.Claim))
	x.Running(reader)
	content, err := x.Exec(Namespace, reader, "main", "cat", records)
	x.Must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	x.Must(w.compare(content))
	x.T.Logf("pod %s: all %d records are there, after %d starts", w.Pod, len(w.sums), w.starts)
}

// compare returns an error unless the content of the volume has each record that the writer has
// reported, once and in order, and at most one incomplete record for each of its starts.
func (w *Writer) compare(content string) error {
	var intact []string
	found, incomplete := map[string]bool{}, 0
	for line := range strings.Lines(content) {
		text, sum, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch actual := sha256.Sum256([]byte(text)); {
		case line == "\n":
		case hex.EncodeToString(actual[:]) != sum:
			incomplete++
		case found[sum]:
			return fmt.Errorf("record %s exists twice", sum)
		default:
			intact, found[sum] = append(intact, sum), true
		}
	}
	for number, sum := range w.sums {
		place := slices.Index(intact, sum)
		if place < 0 {
			return fmt.Errorf("record %d of %d is lost or not in its place: %s", number+1, len(w.sums), sum)
		}
		intact = intact[place+1:]
	}
	if incomplete > w.starts {
		return fmt.Errorf("%d records are damaged after %d starts", incomplete, w.starts)
	}
	return nil
}
