// Package retrytest helps to test code that retries: it has clocks that do not
// wait, repeatable jitter, scripted operations, and a recorder of events.
//
// There are three ways to control the time:
//
//   - [Clock] is a clock that moves by itself: a sleep on it advances it. It
//     starts no goroutine, so a test of one goroutine is exact to the nanosecond
//     and the same every time, with deadlines and cancellations during a wait.
//     It also works if goroutines wait for a network or a database.
//   - [Auto] makes an existing mock clock, such as *clock.Mock of
//     github.com/benbjohnson/clock, move by itself.
//   - testing/synctest is the tool for goroutines that wait for one another. A
//     [retry.Policy] needs no Clock there: the system's clock is the bubble's.
//
// [Rand] is a repeatable source of jitter. [Script] makes an operation with
// given outcomes. [Recorder] compares the events
// with the lines that a test expects. [Nesting] is one that sees retries inside of retries.
package retrytest
