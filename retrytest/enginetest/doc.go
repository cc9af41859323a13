// Package enginetest checks that a job engine retries as a [retry.Policy] says.
//
// An [Engine] describes how to drive the engine: open a queue, submit a job, start,
// stop and kill workers, and read how a job ended. [Run] drives scripts through it:
// failures of every kind, hints of servers, panics, crashes, shutdowns, a policy that
// changes, two kinds of jobs, a job that arrives twice, a bad queue beside a good one, a success
// that is not stored, many jobs at once. The same script runs in [retry.Policy.Execute] on a
// fake clock. The number of attempts, the events of the Observer, the end, and every wait have
// to agree: a retry is never early, and late by no more than the engine's Grain, or by more
// where the machine is so busy that plain work takes longer, too.
//
//	func TestConformance(t *testing.T) {
//		enginetest.Run(t, &enginetest.Engine{Grain: 100 * time.Millisecond, Open: open})
//	}
//
// An engine that cannot keep a promise says in [Engine.Cannot] what happens instead. Run
// then checks that this happens and nothing else, so that the list stays true.
//
// [Cable] cuts a worker off its server in the middle of a job, as a crash does. [Crash]
// kills worker processes at random, and [Outage] makes connections break and go silent.
package enginetest
