// Package retrytest helps to test code that retries: with time that costs
// nothing, jitter that repeats, operations that fail on cue, and a record of
// what happened.
//
// For the time there are three ways:
//
//   - [Clock] is a clock that moves by itself: whoever sleeps on it moves it on.
//     It starts no goroutine, so that a test of one flow is exact to the
//     nanosecond and the same every time, deadlines and cancellations in the
//     middle of a wait included. It works where goroutines wait for a network or
//     a database too.
//   - [Auto] makes a mock clock that a test suite has already, such as
//     *clock.Mock of github.com/benbjohnson/clock, move by itself.
//   - testing/synctest is the tool for goroutines that wait for one another. A
//     [retry.Policy] needs no clock there: its own one is the bubble's.
//
// [Rand] is a source of jitter that repeats, [Script] makes an operation that
// fails as told, and [Recorder] is a [retry.Observer] that compares what
// happened with what a test expects, in lines made for reading.
package retrytest
