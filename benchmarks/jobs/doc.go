// Package jobs does the jobs of examples/jobs with other libraries. Every version is held
// to the same checks, those of package jobstest, and the test of this package counts lines
// and tokens and writes docs/evidence/jobs.md:
//
//	go test ./jobs            # from benchmarks/: compare
//	go test ./jobs -update    # write the file
//
// A version is a function whose name is that of its library and of its job. Whatever else
// it needs has a name that begins with that, and is counted with it. A library is left out
// where it is no help, or where its version would be that of another one in other words.
package jobs
