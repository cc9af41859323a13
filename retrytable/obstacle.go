package retrytable

import (
	"math/rand/v2"
	"slices"
	"time"
)

// obstacles are rows that the database has refused to let us take, because of a trigger,
// for example. A statement leaves them out, and they are tried again in a while.
type obstacles[ID any] struct {
	rows map[string]*obstacle[ID]
	next time.Time // when some of them may be tried again
}

type obstacle[ID any] struct {
	id    ID
	until time.Time // when it is tried again
}

// mostObstacles is how many rows are left out. A table that has more of them is refused.
const mostObstacles = 1000

// ids are those of all rows that are left out.
func (o *obstacles[ID]) ids() (all []any) {
	for _, row := range o.rows {
		all = append(all, row.id)
	}
	return all
}

// due returns up to n rows that are to be tried again, which they are once in a while.
func (o *obstacles[ID]) due(n int) (some []ID) {
	now := time.Now()
	if now.Before(o.next) {
		return nil
	}
	for _, row := range o.rows {
		if len(some) < n && !now.Before(row.until) {
			some = append(some, row.id)
		}
	}
	if len(some) > 0 {
		o.next = now.Add(mostOften)
	}
	return some
}

// mostOften is how long it takes at least until rows that were refused are tried again.
const mostOften = time.Second

// add adds rows, which wait for a pause, and returns those that are new.
func (o *obstacles[ID]) add(ids []ID, pause time.Duration) (news []ID) {
	if o.rows == nil {
		o.rows = map[string]*obstacle[ID]{}
	}
	for _, id := range ids {
		row := o.rows[keyOf(id)]
		if row == nil {
			if len(o.rows) >= mostObstacles {
				continue
			}
			row = &obstacle[ID]{id: id}
			o.rows[keyOf(id)] = row
			news = append(news, id)
		}
		row.until = time.Now().Add(pause/2 + rand.N(pause/2+1))
	}
	return news
}

// delay has rows wait that are left out, and of which nobody knows whether they still are
// refused.
func (o *obstacles[ID]) delay(ids []ID, pause time.Duration) {
	for _, id := range ids {
		if row := o.rows[keyOf(id)]; row != nil {
			row.until = time.Now().Add(pause/2 + rand.N(pause/2+1))
		}
	}
}

// forget forgets rows that were taken, or are not to be taken any more.
func (o *obstacles[ID]) forget(ids []ID) {
	for _, id := range ids {
		delete(o.rows, keyOf(id))
	}
}

// anys are IDs as arguments.
func anys[ID any](ids []ID) (all []any) {
	for _, id := range slices.Clip(ids) {
		all = append(all, id)
	}
	return all
}
