// Package pace learns what a server lets through, from nothing but how attempts end. A [Machine]
// is a pure function of its state, the time and what it is told: it reads no clock, takes no lock
// and starts nothing.
//
// The machine has three states, and a hold between them:
//
//	        500 successes                 a refusal
//	start ───────────────▶ free ──────────────────────▶ hold (nobody goes) ──┐
//	  ▲ │                   ▲                             ▲                  │
//	  │ └── a refusal ──────┼─────────────────────────────┤        no rate is known: start
//	  │                     │ the rate has grown 5 times  │ a refusal        │ else
//	  │                     └──────────── paced ──────────┘◀─────────────────┘
//	  └─ an hour without a hold
//
//	turns in flight    start: 1 2 4 8 …  doubles when all are used and come back, or each 0.5 s
//	turns in time      paced: |  |  |  |  hold  |  |  |  |  hold        one cycle: ├────────────┤
//
// Start. So many attempts may be in flight as a window says. It grows only while somebody wants to
// go and cannot, so idle time gathers nothing. Attempts that are never told delay it by 0.5 s.
//
// Demand. Nobody let through and nobody who wanted to go look alike in a count of successes. So the
// machine counts in cycles of demand: a cycle begins when a Take is granted less than it asks for,
// and is forgotten when nobody has asked again for a while. A refusal in it says: n were let
// through in the time d, hold included, and r were refused. A refusal without demand holds, and
// says nothing about the rate. An attempt counts as let through until it is told to be refused:
// refusals come back fast, successes of slow services do not.
//
// Paced. After a refusal, the gap between two turns is
//
//	d/2n          the first time
//	gap*(1+l/p)   later, if p turns passed since the last hold and l were refused, but from d/8n
//	              to 4dr/n², and not below d/8n or above d/n; or up to 2d/n if n < 4r
//
// where older cycles count in n, d and r, each half as much as the next.
// So a window, which lets many through and then nobody, is met early by one attempt, and the rest
// of it is held. A server that wants distance between two requests, or is far away, is asked more
// and more slowly.
//
// Without a refusal in a step of time the rate grows, by 1.1, 1.3, 1.9, 2, 2 …; the growth before
// a refusal is taken back. A step lasts four gaps or 1.5 holds, 2 s at most. It lasts 0.5 s, and
// the factor is 2, if the limit may be gone: after the first refusal, after four in a row, and
// after 30 idle cycles. So a single refusal is over in seconds, whatever it measured.
//
// Hold. It lasts as long as the hint, or 250 ms. Refusals in a row, with nothing let through
// between them, make it half as long as they have lasted; after it one attempt goes first.
//
// Why not a known one: AIMD and the adaptive mode of AWS's SDKs (CUBIC) look for one rate at which
// nothing is refused, which is slow behind windows, and they take rates from idle time too. BBR
// counts a rate only while it is limited, as this machine does, but it finds the limit by a delay
// that servers of quotas do not have. docs/evidence/quota.md has figures of them.
package pace
