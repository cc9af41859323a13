// Package jobs shows fifteen uses of retries, each as one function that can be copied:
//
//   - [HTTPClient]: HTTP with a limit for the whole call
//   - [Import]: many tasks, and their progress
//   - [WithMockClock]: a test with a mock clock
//   - [Retry]: the usual call; its test runs in a bubble of testing/synctest
//   - [Reconnect]: a connection that is made again forever
//   - [Poll]: poll until ready, and retry real errors
//   - [Reschedule]: a job whose state is a column of a table
//   - [PerKind]: a limit and a wait for each kind of error
//   - [AllErrors]: the number of the attempt, and the errors of all attempts
//   - [Answer]: a response with status 200 that holds an error
//   - [SigningClient]: every attempt is signed anew
//   - [Throttled]: calls that share a throttle
//   - [ExactDelay]: the error knows how long to wait
//   - [Command]: a command in a terminal
//   - [Nested]: a policy around a policy
//
// Package jobstest checks each job, and the tests of this package call it. In
// benchmarks/jobs other libraries do the same jobs under the same checks, and the lines
// of code are counted.
package jobs
