package operator

import (
	"context"
	"math/rand/v2"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// history is a cluster in which one step happens after the other. Numbers are the generation whose
// content something has.
type history struct {
	*driver
	*rand.Rand

	object, cachedObject, conf, cachedConf int64
	configures                             func(cluster.Generation)
	// begun and read are what the sync of the configuration has read; begun is 0 outside a sync.
	begun, read int64
}

// A generation that is reported as completed is that of every pod, in whatever order the caches,
// the controllers and the pods follow.
func TestCompletedGenerationIsThatOfTheLastPod(t *testing.T) {
	t.Parallel()
	completed := 0
	for seed := range uint64(10) {
		d := assembled(t, flavour.Kubernetes, plugins()[1])[0]
		h := &history{
			driver: d, Rand: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // not for a secret
			object: 1, configures: d.cluster.Configured.Add(),
		}
		workloads := [2]struct {
			template, pods int64
			sync           func() error
		}{}
		for i := range workloads {
			w, reasons := &workloads[i], &podReasons{}
			inner := factory.New().WithSync(func(context.Context, factory.SyncContext) error {
				h.configure()
				spec := h.cachedObject
				h.configure()
				w.template = min(spec, h.cachedConf)
				reasons.unsettled = w.pods != w.template
				return nil
			}).ToController("inner", d.events)
			c := d.workloadController(inner, "outer", reasons, d.operator, nil)
			w.sync = func() error { return syncOnce(t, d, c) }
		}
		for range 500 {
			h.configure()
			w := &workloads[h.IntN(len(workloads))]
			if h.IntN(2) == 0 {
				w.pods = w.template
			}
			assert.NilError(t, w.sync())
			if d.cluster.RolledOut.Lowest().Of("a") == h.object {
				completed++
				assert.Assert(t, workloads[0].pods == h.object && workloads[1].pods == h.object,
					"seed %d: generation %d, workloads %+v", seed, h.object, workloads)
			}
		}
	}
	assert.Assert(t, completed > 100, "only %d steps found a completed generation", completed)
}

// configure takes steps of a person, of caches, and of the controller of the configuration.
func (h *history) configure() {
	for range h.IntN(8) {
		switch h.IntN(8) {
		case 0:
			h.object += h.Int64N(8) / 7
		case 1, 2:
			h.cachedObject = h.object
		case 3, 4:
			h.cachedConf = h.conf
		default:
			h.write()
		}
	}
}

// write takes the next step of a sync that writes the configuration.
func (h *history) write() {
	switch {
	case h.begun == 0:
		h.begun, h.read = h.cachedObject, 0
	case h.read == 0:
		h.read = h.cachedObject
		h.conf = h.read
	default:
		if h.cachedConf == h.read {
			h.configures(cluster.Generation{UID: "a", Number: h.begun})
		}
		h.begun = 0
	}
}
