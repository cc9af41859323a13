package cli

import "github.com/seed-5ff3c98e/retry"

// NewSpool is newSpool, and InMemory inMemory, for their tests.
var NewSpool = newSpool

const InMemory = inMemory

// Reader reads from the beginning.
func (s *spool) Reader() interface{ Read([]byte) (int, error) } { return &feed{spool: s} }

// Close is close, for its test.
func (s *spool) Close() { s.close() }

// ReadPolicy reads a file with one policy.
func ReadPolicy(file string) (*retry.Policy, error) { return policyFromFile(file, "") }

// LongestHint is longestHint, for its test.
var LongestHint = longestHint

// Plain is plain, for its test.
var Plain = plain
