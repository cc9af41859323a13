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
	asked  int64 // by then: how many statements
	told   bool
}

// tooMany connections within a minute, which are closed because too few may be idle, are
// worth a word, if they are more than a tenth of the statements.
const tooMany = 100

// advise says once what to write.
func advise[ID any](s *shift[ID], i *idleness) {
	stats := s.DB.Stats()
	asked := s.asked.Load()
	switch closed := stats.MaxIdleClosed - i.closed; {
	case i.told:
	case closed >= max(tooMany, (asked-i.asked)/10):
		i.told = true
		n := connections
		if s.inTx.Load() {
			n += s.concurrency
		}
		if stats.MaxOpenConnections > 0 {
			n = min(n, stats.MaxOpenConnections)
		}
		s.report(fmt.Errorf("retrytable: Worker.DB: %d connections were closed in %v because too few may be idle: "+
			"each job waits for new ones: call db.SetMaxIdleConns(%d)",
			closed, time.Since(i.since).Round(time.Second), n))
	case time.Since(i.since) > time.Minute:
		i.since, i.closed, i.asked = time.Now(), stats.MaxIdleClosed, asked
	}
}
