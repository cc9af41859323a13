package cli

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// NewSpool is newSpool, and InMemory inMemory, for their tests.
var NewSpool = newSpool

const InMemory = inMemory

// Reader reads from the beginning.
func (s *spool) Reader() interface{ Read([]byte) (int, error) } { return &feed{spool: s} }

// Close is close, for its test.
func (s *spool) Close() { s.close() }

// Row is row, for its test.
type Row struct{ Shortest, Longest, Earliest, Latest time.Duration }

// Rows returns the waits of a plan.
func Rows(policy *retry.Policy, rows int) []Row {
	var all []Row
	for _, r := range (&plan{rows: rows}).table(policy) {
		all = append(all, Row{r.shortest, r.longest, r.earliest, r.latest})
	}
	return all
}

// ReadPolicy reads a file with one policy.
func ReadPolicy(file string) (*retry.Policy, error) { return policyFromFile(file, "") }

// LongestHint is longestHint, for its test.
var LongestHint = longestHint

// Plain is plain, for its test.
var Plain = plain
