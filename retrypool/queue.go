package retrypool

import "container/heap"

// queue is a heap of tasks, each of which knows its place in it.
type queue struct {
	tasks  []*Task
	before func(a, b *Task) bool
}

func (q *queue) push(t *Task) { heap.Push((*byOrder)(q), t) }

// pop takes the first task out. The queue must not be empty.
func (q *queue) pop() *Task { return heap.Pop((*byOrder)(q)).(*Task) } //nolint:forcetypeassert // see Push

func (q *queue) remove(t *Task) { heap.Remove((*byOrder)(q), t.place) }

func (q *queue) first() *Task {
	if len(q.tasks) == 0 {
		return nil
	}
	return q.tasks[0]
}

// byOrder is the heap of package container/heap.
type byOrder queue

func (q *byOrder) Len() int { return len(q.tasks) }

func (q *byOrder) Less(i, j int) bool { return q.before(q.tasks[i], q.tasks[j]) }

func (q *byOrder) Swap(i, j int) {
	q.tasks[i], q.tasks[j] = q.tasks[j], q.tasks[i]
	q.tasks[i].place, q.tasks[j].place = i, j
}

func (q *byOrder) Push(x any) {
	t := x.(*Task) //nolint:forcetypeassert // only tasks are pushed
	t.place = len(q.tasks)
	q.tasks = append(q.tasks, t)
}

func (q *byOrder) Pop() any {
	last := len(q.tasks) - 1
	t := q.tasks[last]
	q.tasks[last] = nil
	q.tasks = q.tasks[:last]
	if last < cap(q.tasks)/4 { // a flood is over
		q.tasks = append(make([]*Task, 0, 2*last), q.tasks...)
	}
	return t
}
