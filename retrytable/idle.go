package retrytable

import (
	"fmt"
	"time"
)

// idleness looks for connections that are opened and closed again and again, because
// package sql keeps two of them unless it is told otherwise.
type idleness struct {
	since  time.Time
	closed int64 // by then
	told   bool
}

// tooMany connections within a minute, which are closed because too few may be idle, are
// worth a word.
const tooMany = 100

// advise says once what to write.
func advise[ID any](s *shift[ID], i *idleness) {
	stats := s.DB.Stats()
	switch closed := stats.MaxIdleClosed - i.closed; {
	case i.told:
	case closed >= tooMany:
		i.told = true
		n := s.concurrency + 2 // to claim and to sweep
		if stats.MaxOpenConnections > 0 {
			n = min(n, stats.MaxOpenConnections)
		}
		s.report(fmt.Errorf("retrytable: Worker.DB: %d connections were closed in %v because too few may be idle: "+
			"each job waits for new ones: call db.SetMaxIdleConns(%d)",
			closed, time.Since(i.since).Round(time.Second), n))
	case time.Since(i.since) > time.Minute:
		i.since, i.closed = time.Now(), stats.MaxIdleClosed
	}
}
