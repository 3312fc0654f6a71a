package kubectl

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openstack-csi/csi-operator/test/broken"
	"github.com/openstack-csi/csi-operator/test/golden"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	manyNodes  = 5000
	manyClaims = 10000
)

// crowd is an API server of a large cluster. It divides lists into pages as clients want.
type crowd struct {
	// items are objects by the path of their list in all namespaces.
	items           map[string][]crowded
	requests, bytes atomic.Int64
}

// crowded is an object: its metadata as JSON, and what follows.
type crowded struct {
	kind, namespace, name string
	labels, fields        map[string]string
	head, rest            string
}

// add adds n objects. The format of each gets its number, and names contain it.
func (c *crowd) add(n int, path, kind, labels, rest string) {
	for i := range n {
		one := crowded{kind: kind, name: fmt.Sprintf("o-%d", i), rest: rest}
		if kind == "Pod" || kind == "PersistentVolumeClaim" {
			one.namespace = fmt.Sprintf("ns-%d", i%100)
		}
		one.head = fmt.Sprintf(`"metadata":{"name":%q,"namespace":%q,"uid":"%s-%d","labels":{%s}}`,
			one.name, one.namespace, kind, i, labels)
		c.items[path] = append(c.items[path], one)
	}
}

func (c *crowd) addObject(tb testing.TB, u unstructured.Unstructured) {
	tb.Helper()
	plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	path := "/apis/" + u.GetAPIVersion() + "/" + plural.Resource
	if u.GetAPIVersion() == "v1" {
		path = "/api/v1/" + plural.Resource
	}
	text, err := u.MarshalJSON()
	assert.NilError(tb, err)
	involved, _, _ := unstructured.NestedString(u.Object, "involvedObject", "uid")
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	c.items[path] = append(c.items[path], crowded{
		kind: u.GetKind(), namespace: u.GetNamespace(), name: u.GetName(), labels: u.GetLabels(),
		fields: map[string]string{"involvedObject.uid": involved, "spec.nodeName": node},
		rest:   strings.ReplaceAll(string(text), "2026-11-24T11:59:50", "2126-11-24T11:59:50"),
	})
}

func (o *crowded) json(onlyMetadata bool) string {
	switch {
	case o.head == "":
		return o.rest
	case onlyMetadata:
		return `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + o.head + `}`
	}
	rest := strings.ReplaceAll(o.rest, "NAME", o.name)
	return `{"kind":"` + o.kind + `",` + o.head + `,` + rest + `}`
}

// listType returns kind and apiVersion of a list as JSON.
func (*crowd) listType(all []crowded, path string, onlyMetadata bool) string {
	version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(path), "/apis/"), "/api/")
	if onlyMetadata || len(all) == 0 {
		return `"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
	}
	return fmt.Sprintf(`"kind":"%sList","apiVersion":%q`, all[0].kind, version)
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	path, namespace, name := r.URL.Path, "", ""
	if before, after, ok := strings.Cut(path, "/namespaces/"); ok && strings.Contains(after, "/") {
		namespace, after, _ = strings.Cut(after, "/")
		path = before + "/" + after
	}
	all, isList := c.items[path]
	if !isList {
		path, name = filepath.Dir(path), filepath.Base(path)
		all = c.items[path]
	}
	onlyMetadata := strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
	query := r.URL.Query()
	wanted, _ := labels.Parse(query.Get("labelSelector"))
	selected, _ := fields.ParseSelector(query.Get("fieldSelector"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	start, _ := strconv.Atoi(query.Get("continue"))
	var found []string
	next := ""
	for i := start; i < len(all); i++ {
		o := &all[i]
		if namespace != "" && o.namespace != namespace || name != "" && o.name != name ||
			!wanted.Matches(labels.Set(o.labels)) || !selected.Matches(fields.Set(o.fields)) {
			continue
		}
		if limit > 0 && len(found) == limit {
			next = strconv.Itoa(i)
			break
		}
		found = append(found, o.json(onlyMetadata))
	}
	w.Header().Set("Content-Type", "application/json")
	text := `{"metadata":{"continue":"` + next + `"},"items":[` + strings.Join(found, ",") + `],` +
		c.listType(all, path, onlyMetadata) + `}`
	switch {
	case name != "" && len(found) == 0:
		w.WriteHeader(http.StatusNotFound)
		text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	case name != "":
		text = found[0]
	}
	c.bytes.Add(int64(len(text)))
	_, _ = w.Write([]byte(text))
}

// newCrowd returns a server with many healthy objects beside those of a situation.
func newCrowd(b *testing.B, s *broken.Situation, nodes, claims int) *crowd {
	b.Helper()
	c := &crowd{items: map[string][]crowded{}}
	images := strings.Repeat(`{"names":["registry.example.com/a/b@sha256:`+strings.Repeat("0", 64)+
		`"],"sizeBytes":1},`, 75)
	c.add(nodes, "/api/v1/nodes", "Node", `"topology.cinder.csi.openstack.org/zone":"nova"`,
		`"apiVersion":"v1","status":{"conditions":[{"type":"Ready","status":"True"}],"images":[`+
			strings.TrimSuffix(images, ",")+`]}`)
	c.add(nodes, "/apis/storage.k8s.io/v1/csinodes", "CSINode", "", `"apiVersion":`+
		`"storage.k8s.io/v1","spec":{"drivers":[{"name":"cinder.csi.openstack.org","nodeID":"NAME",`+
		`"topologyKeys":["zone"],"allocatable":{"count":25}}]}`)
	c.add(claims, "/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", "",
		`"apiVersion":"storage.k8s.io/v1","spec":{"attacher":"cinder.csi.openstack.org","nodeName":`+
			`"NAME","source":{"persistentVolumeName":"NAME"}},"status":{"attached":true}`)
	c.add(claims, "/api/v1/persistentvolumes", "PersistentVolume", "", `"apiVersion":"v1",`+
		`"spec":{"csi":{"driver":"cinder.csi.openstack.org","volumeHandle":"NAME"}},`+
		`"status":{"phase":"Bound"}`)
	for path, kind := range map[string]string{
		"/api/v1/persistentvolumeclaims": "PersistentVolumeClaim", "/api/v1/pods": "Pod",
	} {
		c.add(claims, path, kind, "", `"apiVersion":"v1","spec":{"volumeName":"NAME",`+
			`"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"NAME"}}],`+
			`"containers":[{"name":"a",`+
			`"env":[{"name":"A","value":"`+strings.Repeat("x", 2000)+`"}]}]},"status":{"phase":"Bound"}`)
	}
	known := map[string]bool{}
	for _, o := range s.Objects {
		known[keyOf(o)] = true
		c.addObject(b, o)
	}
	var healthy []unstructured.Unstructured
	decode(b, "testdata/objects.yaml", &healthy)
	for _, o := range healthy {
		if !known[keyOf(o)] {
			c.addObject(b, o)
		}
	}
	return c
}

// BenchmarkWhyInALargeCluster measures the program in a cluster of 5,000 nodes of 10 KB, 10,000
// claims, volumes, attachments and pods: time, requests, transferred data, and the largest memory.
func BenchmarkWhyInALargeCluster(b *testing.B) {
	program := built(b)
	all, err := broken.All(broken.NewWorld(time.Now()))
	assert.NilError(b, err)
	for _, name := range []string{
		"provisioned/quota of volumes/cinder/pvc", "scheduled/class for a zone without nodes/cinder/pvc",
		"attached/instance is locked/cinder/pod", "deleted/claim that a pod uses/cinder/pvc",
		"provisioned/type that does not exist/cinder/storageclass",
		"attached/instance is locked/cinder/volumeattachment",
	} {
		for i := range all {
			if !strings.HasPrefix(all[i].Name, name) {
				continue
			}
			b.Run(strings.ReplaceAll(name, "/", "_"), func(b *testing.B) {
				measure(b, program, newCrowd(b, &all[i], manyNodes, manyClaims), all[i].Args[:4]...)
			})
		}
	}
}

// BenchmarkGrowthWithVolumes measures `volumes --clouds` by the number of volumes, of which every
// hundredth is in error.
func BenchmarkGrowthWithVolumes(b *testing.B) {
	program := built(b)
	for _, number := range []int{100, 1000, manyClaims} {
		b.Run(strconv.Itoa(number), func(b *testing.B) {
			cloud, clouds := newCloud(b, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
			c := newCrowd(b, &broken.Situation{Objects: marked(b, "c1", nil).Objects}, 10, number)
			all := c.items["/api/v1/persistentvolumes"]
			fill(b, cloud, number, func(i int, id string) {
				all[i].rest = strings.Replace(all[i].rest, `"volumeHandle":"NAME"`, fmt.Sprintf(
					`"volumeHandle":%q,"volumeAttributes":{"a":"%s"}`, id, strings.Repeat("x", 1000)), 1)
			})
			cpuSeconds, mebibytes := measure(b, program, c, "volumes", "-A", "--clouds="+clouds)
			recordFigures(b, cpuSeconds, mebibytes)
		})
	}
}

// fill creates volumes of the cluster c1.
func fill(b *testing.B, cloud *simulator.Simulator, number int, created func(i int, id string)) {
	b.Helper()
	manila, err := administrator.Shares(b.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(b, err)
	cinder, err := openstack.NewBlockStorageV3(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(b, err)
	for i := range number {
		volume, err := volumes.Create(b.Context(), cinder, volumes.CreateOpts{
			Name: "pvc-" + strings.Repeat("0", 36), Size: 1, Metadata: map[string]string{
				"cinder.csi.openstack.org/cluster": "c1", "csi.storage.k8s.io/pvc/name": "data",
			},
		}, nil).Extract()
		assert.NilError(b, err)
		status, reasons := "available", []simulator.Reason(nil)
		if i%100 == 0 {
			status, reasons = "error", []simulator.Reason{{Action: "008", Detail: "012"}}
		}
		assert.NilError(b, cloud.SetStatus(simulator.Volume, volume.ID, status, reasons...))
		created(i, volume.ID)
	}
}

// BenchmarkGrowthWithNodes measures `why` for a pod whose volume cannot be attached, by the number
// of nodes.
func BenchmarkGrowthWithNodes(b *testing.B) {
	program := built(b)
	all, err := broken.All(broken.NewWorld(time.Now()))
	assert.NilError(b, err)
	i := slices.IndexFunc(all, func(s broken.Situation) bool {
		return strings.HasPrefix(s.Name, "attached/instance is locked/cinder/pod")
	})
	for _, number := range []int{10, 100, 1000, manyNodes} {
		b.Run(strconv.Itoa(number), func(b *testing.B) {
			c := newCrowd(b, &all[i], number, 2*number)
			cpuSeconds, mebibytes := measure(b, program, c, all[i].Args[:4]...)
			recordFigures(b, cpuSeconds, mebibytes)
		})
	}
}

// recordFigures compares the largest memory with the recorded one, and draws CPU time only.
func recordFigures(b *testing.B, cpuSeconds, mebibytes float64) {
	b.Helper()
	const figures, anyTime = "../../test/bench/testdata/figures.json", 60
	golden.Figure(b, figures, "cpu-s", cpuSeconds, anyTime)
	golden.Figure(b, figures, "MiB", mebibytes, 0)
}

func built(b *testing.B) (program string) {
	b.Helper()
	program = filepath.Join(b.TempDir(), "program")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", program,
		"../../cmd/kubectl-openstack_csi")
	output, err := build.CombinedOutput()
	assert.NilError(b, err, string(output))
	return program
}

func measure(
	b *testing.B, program string, c *crowd, args ...string,
) (cpuSeconds, mebibytes float64) {
	b.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	config := filepath.Join(b.TempDir(), "kubeconfig")
	assert.NilError(b, os.WriteFile(config, []byte(guestKubeconfig(server.URL)), 0o600))
	var peak int
	var used time.Duration
	b.ResetTimer()
	for range b.N {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig=" + config}, args...)...)
		var output strings.Builder
		cmd.Stdout, cmd.Stderr = &output, &output
		assert.NilError(b, cmd.Start())
		memory := make(chan int)
		go func() { memory <- watchMemory(cmd.Process.Pid) }()
		_ = cmd.Wait() // the exit code says that something is wrong
		cancel()
		peak = max(peak, <-memory)
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		b.Log(strings.SplitN(output.String(), "\n  ", 2)[0])
	}
	cpuSeconds, mebibytes = used.Seconds()/float64(b.N), float64(peak)/(1<<10)
	b.ReportMetric(cpuSeconds, "cpu-s/op")
	b.ReportMetric(float64(c.requests.Load())/float64(b.N), "requests/op")
	b.ReportMetric(float64(c.bytes.Load())/float64(b.N)/(1<<20), "MiB-received/op")
	b.ReportMetric(mebibytes, "MiB-peak")
	return cpuSeconds, mebibytes
}

// watchMemory returns the largest resident memory of a process in KiB, until the process has ended.
// What the kernel reports at the end contains the memory of this process.
func watchMemory(pid int) (peak int) {
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for range ticks.C {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, found := strings.Cut(string(text), "VmHWM:")
		if err != nil || !found {
			return peak
		}
		_, _ = fmt.Sscan(after, &peak)
	}
	return peak
}
