package retrypool

import "container/heap"

// line is a FIFO queue of tasks.
type line struct {
	tasks []*Task
	gone  int // the number of tasks that have been taken out
}

// small is a capacity that is not worth giving back.
const small = 64

func (l *line) len() int { return len(l.tasks) - l.gone }

func (l *line) push(t *Task) { l.tasks = append(l.tasks, t) }

// pop takes the first task out. The line must not be empty.
func (l *line) pop() *Task {
	t := l.tasks[l.gone]
	l.tasks[l.gone] = nil
	l.gone++
	rest := l.tasks[l.gone:]
	if len(rest) > l.gone { // so that each pop moves one task on average
		return t
	}
	room := l.tasks[:0]
	if cap(room) > small && len(rest) < cap(room)/4 { // a flood is over
		room = make([]*Task, 0, 2*len(rest))
	}
	l.tasks, l.gone = append(room, rest...), 0
	clear(rest)
	return t
}

// empty takes all tasks out.
func (l *line) empty() []*Task {
	all := l.tasks[l.gone:]
	*l = line{}
	return all
}

// agenda has the waiting tasks, ordered by the time when they are due, and then by
// submission. It is a heap in which each task knows its place.
type agenda struct{ tasks []*Task }

func (a *agenda) push(t *Task) { heap.Push((*byTime)(a), t) }

// pop takes the first task out. The agenda must not be empty.
func (a *agenda) pop() *Task { return heap.Pop((*byTime)(a)).(*Task) } //nolint:forcetypeassert // see Push

func (a *agenda) remove(t *Task) { heap.Remove((*byTime)(a), int(t.place)) }

func (a *agenda) first() *Task {
	if len(a.tasks) == 0 {
		return nil
	}
	return a.tasks[0]
}

// empty takes all tasks out.
func (a *agenda) empty() []*Task {
	all := a.tasks
	a.tasks = nil
	return all
}

// byTime is the heap of package container/heap.
type byTime agenda

func (h *byTime) Len() int { return len(h.tasks) }

func (h *byTime) Less(i, j int) bool {
	a, b := h.tasks[i], h.tasks[j]
	if a.at.Equal(b.at) {
		return a.number < b.number
	}
	return a.at.Before(b.at)
}

func (h *byTime) Swap(i, j int) {
	h.tasks[i], h.tasks[j] = h.tasks[j], h.tasks[i]
	h.tasks[i].place, h.tasks[j].place = uint32(i), uint32(j)
}

func (h *byTime) Push(x any) {
	t := x.(*Task) //nolint:forcetypeassert // only tasks are pushed
	t.place = uint32(len(h.tasks))
	h.tasks = append(h.tasks, t)
}

func (h *byTime) Pop() any {
	last := len(h.tasks) - 1
	t := h.tasks[last]
	h.tasks[last] = nil
	h.tasks = h.tasks[:last]
	if last < cap(h.tasks)/4 { // a flood is over
		h.tasks = append(make([]*Task, 0, 2*last), h.tasks...)
	}
	return t
}
