package reclaimspace

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// queue contains the jobs that wait for calls of one driver. Each namespace has a queue of its own,
// and gets its turn after all others. Adding and removing a job takes the same time, however many
// jobs wait.
type queue struct {
	turns *list.List // of *namespaceQueue; the next turn is first
	of    map[string]*list.Element
	jobs  map[types.NamespacedName]*list.Element // in the list of their namespace
}

// namespaceQueue contains the jobs of a namespace in their order. Those in first precede the
// others.
type namespaceQueue struct {
	namespace   string
	first, jobs *list.List // of types.NamespacedName
}

// front returns the next job.
func (n *namespaceQueue) front() types.NamespacedName {
	if job := n.first.Front(); job != nil {
		return job.Value.(types.NamespacedName)
	}
	return n.jobs.Front().Value.(types.NamespacedName)
}

// remove removes a job from the list that contains it.
func (n *namespaceQueue) remove(job *list.Element) {
	n.first.Remove(job)
	n.jobs.Remove(job)
}

func newQueue() *queue {
	return &queue{
		turns: list.New(), of: map[string]*list.Element{},
		jobs: map[types.NamespacedName]*list.Element{},
	}
}

// add adds a job, behind the jobs of its namespace.
func (q *queue) add(job types.NamespacedName) {
	turn := q.of[job.Namespace]
	if turn == nil {
		turn = q.turns.PushBack(&namespaceQueue{
			namespace: job.Namespace, first: list.New(), jobs: list.New(),
		})
		q.of[job.Namespace] = turn
	}
	q.jobs[job] = turn.Value.(*namespaceQueue).jobs.PushBack(job)
}

// advance moves a job before the jobs of its namespace, but behind those that advance has moved.
func (q *queue) advance(job types.NamespacedName) {
	waiting := q.of[job.Namespace].Value.(*namespaceQueue)
	waiting.remove(q.jobs[job])
	q.jobs[job] = waiting.first.PushBack(job)
}

// next removes and returns the first job of the first namespace that may have a turn.
func (q *queue) next(may func(namespace string) bool) (types.NamespacedName, bool) {
	for turn := q.turns.Front(); turn != nil; turn = turn.Next() {
		waiting := turn.Value.(*namespaceQueue)
		if !may(waiting.namespace) {
			continue
		}
		job := waiting.front()
		q.turns.MoveToBack(turn)
		q.remove(job)
		return job, true
	}
	return types.NamespacedName{}, false
}

// remove removes a job.
func (q *queue) remove(job types.NamespacedName) {
	turn := q.of[job.Namespace]
	waiting := turn.Value.(*namespaceQueue)
	waiting.remove(q.jobs[job])
	delete(q.jobs, job)
	if waiting.first.Len()+waiting.jobs.Len() == 0 {
		q.turns.Remove(turn)
		delete(q.of, waiting.namespace)
	}
}
