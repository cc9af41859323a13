// Package behaviour checks promises about retrying by running every library: who
// keeps which, and what was seen. Its test writes docs/evidence/behaviour.md anew and
// compares; nothing in that file but its frame is written by hand.
//
//	go test ./behaviour            # from benchmarks/: compare
//	go test ./behaviour -update    # write the file
//
// A probe is a small function that gives a contestant a script and returns a
// cell. Time is that of testing/synctest, so a probe may wait for a day. Nothing
// random may reach a text: it is rounded, or counted among so many that the
// outcome is certain.
package behaviour
