package pace_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/pace"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
)

const ms = time.Millisecond

var start = time.Unix(1e9, 0)

func newMachine() scene.Pacer { return &pace.Machine{} }

// Each scene is within its bars: the refusals a job, and the time.
func TestScenes(t *testing.T) {
	t.Parallel()
	for _, s := range append(scene.Servers(), scene.Demands()...) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			const seeds = 3
			var refused, ratio float64
			for seed := range uint64(seeds) {
				r := scene.Run(s, newMachine, seed)
				refused += r.Refused / seeds
				ratio += r.Ratio / seeds
				assert.LessOrEqual(t, r.Over, max(3*time.Second, s.Slack), "beyond 1.15 of the ideal; seed %d", seed)
			}
			assert.LessOrEqual(t, refused, s.Bar, "refused a job")
			t.Logf("%-45s %6.3f %6.2f", s.Name, refused, ratio)
			if s.Slack == 0 && s.Demand[0].Jobs >= 200 {
				assert.LessOrEqual(t, ratio, 1.6)
			}
		})
	}
}

// Whatever the server and the history are, a batch is hardly slower than with the limit known.
func TestHistories(t *testing.T) {
	t.Parallel()
	n := uint64(300)
	if testing.Short() {
		n = 40
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 3))
		s := history(r)
		got := scene.Run(s, newMachine, seed)
		jobs := 0
		for _, b := range s.Demand {
			jobs += b.Jobs
		}
		assert.LessOrEqual(t, got.Over, s.Slack, "seed %d: %s", seed, s.Name)
		assert.LessOrEqual(t, got.Refused, s.Bar+40*float64(s.Processes)/float64(jobs), "seed %d: %s", seed, s.Name)
	}
}

// history is a random scene.
func history(r *rand.Rand) scene.Scene {
	length := time.Duration(1+r.IntN(10)) * time.Second
	limit := 20 + r.IntN(200)
	hint := []scene.Hint{scene.Exact, scene.Seconds, scene.Rough, scene.Blind}[r.IntN(4)]
	s := scene.Scene{
		Name: "a window", Server: scene.Window(limit, length, hint), Bar: 0.25, Slack: 3*time.Second + 2*length,
		Processes: 1 + r.IntN(4), Places: 20 + r.IntN(100), Service: time.Duration(10+r.IntN(200)) * ms,
	}
	switch r.IntN(4) {
	case 0:
		s.Name, s.Server = "no limit", scene.Unlimited(nil)
	case 1:
		s.Name, s.Server, s.Bar = "a sliding window", scene.Sliding(limit, length, hint), 0.45
	case 2:
		began, lasts := time.Duration(r.IntN(60))*time.Second, time.Duration(r.IntN(300))*time.Second
		s.Name, s.Slack = "an outage", 3*time.Second+2*time.Minute
		s.Server = scene.Outage(s.Server, began, lasts, time.Duration(r.IntN(3))*5*time.Second)
	}
	at := time.Duration(0)
	for range 1 + r.IntN(6) {
		switch r.IntN(3) {
		case 0: // a trickle
			every := time.Duration(math.Exp(r.Float64()*10)) * 10 * ms
			for range 1 + r.IntN(100) {
				s.Demand = append(s.Demand, scene.Batch{At: at, Jobs: 1})
				at += every
			}
		case 1:
			at += time.Duration(math.Exp(r.Float64()*13.6)) * 100 * ms // up to a day
		default:
			s.Demand = append(s.Demand, scene.Batch{At: at, Jobs: 50 + r.IntN(800)})
		}
	}
	s.Demand = append(s.Demand, scene.Batch{At: at, Jobs: 500})
	if r.IntN(2) == 0 { // some are canceled, panic, or fail
		s.End = func(_ time.Duration, job int, o pace.Outcome) pace.Outcome {
			if o.Kind == pace.Served && job%5 == 0 {
				o.Kind = []pace.Kind{pace.Failed, pace.Lost}[job%2]
			}
			return o
		}
	}
	return s
}

// take asks for one turn until there is one, and returns how long that took.
func take(m *pace.Machine, now time.Time) (pace.Turn, time.Duration) {
	for at := now; ; {
		turn, n, wait := m.Take(at, 1)
		if n == 1 || at.Sub(now) > 24*time.Hour {
			return turn, at.Sub(now)
		}
		at = at.Add(wait)
	}
}

// limited is a machine that has met a limit of 10 a second twice.
func limited() (m *pace.Machine, now time.Time) {
	m, now = &pace.Machine{}, start
	for range 3 {
		for until := now.Add(time.Second); now.Before(until); {
			turn, waited := take(m, now)
			now = now.Add(waited)
			m.Take(now, 1)
			m.Tell(now.Add(50*ms), turn, pace.Outcome{})
			now = now.Add(50 * ms)
		}
		turn, waited := take(m, now)
		now = now.Add(waited)
		m.Tell(now, turn, pace.Outcome{Kind: pace.Refused, After: time.Second})
	}
	return m, now
}

func TestHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hint, maxHold, held time.Duration }{
		{2 * time.Second, 0, 2 * time.Second},
		{0, 0, 250 * ms},
		{-time.Hour, 0, 250 * ms},
		{365 * 24 * time.Hour, 0, time.Minute},
		{time.Hour, time.Hour, time.Hour},
		{math.MaxInt64, -1, time.Minute},
	} {
		m := &pace.Machine{MaxHold: c.maxHold}
		turn, _, _ := m.Take(start, 1)
		assert.Equal(t, c.held, m.Tell(start, turn, pace.Outcome{pace.Refused, c.hint}), "%v", c)
		assert.Equal(t, c.held, m.Held(start))
		assert.Equal(t, pace.Held, m.Status(start).State)
		_, n, wait := m.Take(start, 1)
		assert.Zero(t, n)
		assert.Equal(t, c.held, wait)
		assert.Zero(t, m.Tell(start, turn, pace.Outcome{pace.Refused, c.hint}), "a refusal of before the hold")
		_, waited := take(m, start)
		assert.Equal(t, c.held, waited)
	}
	m := &pace.Machine{}
	turn, _, _ := m.Take(start, 1)
	m.Tell(start, turn, pace.Outcome{pace.Refused, time.Second})
	assert.Equal(t, 30*time.Second, m.Tell(start, turn, pace.Outcome{pace.Refused, 30 * time.Second}), "it has become longer")
	assert.Equal(t, 30*time.Second, m.Held(start))
}

func TestReturnIsAsIfNeverAsked(t *testing.T) {
	t.Parallel()
	m, now := limited()
	_, waited := take(m, now)
	now = now.Add(waited)
	for range 3 {
		_, w := take(m, now)
		now = now.Add(w)
	}
	before := *m
	turn, waited := take(m, now)
	m.Return(now.Add(waited), turn, 1)
	_, again, _ := m.Take(now.Add(waited), 1)
	assert.Equal(t, 1, again)
	m.Return(now.Add(waited), turn, 1)
	m.Return(now, turn+1, 100) // of another period
	m.Return(now, turn, -1)
	assert.Equal(t, before.Gap(), m.Gap())
	assert.Equal(t, before.Status(now).Known, m.Status(now).Known)
}

// To look is no demand, and says what would be granted.
func TestLook(t *testing.T) {
	t.Parallel()
	m, now := limited()
	gap := m.Gap()
	for range 1000 {
		_, n, wait := m.Take(now, 0)
		assert.Zero(t, n)
		assert.LessOrEqual(t, wait, time.Second)
		now = now.Add(10 * ms)
	}
	assert.Equal(t, gap, m.Gap(), "nobody wanted to go, so it does not grow")
	_, _, wait := m.Take(now, 0)
	assert.Zero(t, wait)
}

// Attempts that are never told hold up nobody for long.
func TestNeverTold(t *testing.T) {
	t.Parallel()
	m, now := &pace.Machine{}, start
	for range 1000 {
		_, waited := take(m, now)
		assert.LessOrEqual(t, waited, 500*ms)
		now = now.Add(waited)
	}
	assert.Less(t, now.Sub(start), 6*time.Second)
}

func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-1000 * time.Hour, -time.Second, time.Second, 1000 * time.Hour} {
		m, now := limited()
		now = now.Add(jump)
		for range 20 {
			turn, waited := take(m, now)
			assert.LessOrEqual(t, waited, min(max(-jump, 0), time.Minute)+time.Second+m.Gap(), "%v", jump)
			now = now.Add(waited)
			m.Tell(now, turn, pace.Outcome{})
		}
		for range 100 { // with demand, and without a refusal, it grows
			_, waited := take(m, now)
			now = now.Add(waited)
		}
		assert.Less(t, m.Gap(), 50*ms, "%v", jump)
	}
}

// A server that says "nothing is left" in each success, for too long, is believed no more.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait time.Duration // what the server wants
		held bool          // in the end
	}{{"true", time.Second, true}, {"a lie", 0, false}} {
		m, now, free, held := &pace.Machine{}, start, start, false
		for range 40 {
			turn, waited := take(m, now)
			now = now.Add(waited)
			m.Take(now, 1)
			o := pace.Outcome{pace.Spent, time.Second}
			if now.Before(free) {
				o = pace.Outcome{pace.Refused, free.Sub(now)}
			} else {
				free = now.Add(c.wait)
			}
			held = m.Tell(now, turn, o) > 0
		}
		assert.Equal(t, c.held, held, c.name)
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	m, now := &pace.Machine{}, start
	for range 500 {
		turn, waited := take(m, now)
		now = now.Add(waited + 10*ms)
		assert.Zero(t, m.Free())
		m.Tell(now, turn, pace.Outcome{})
	}
	w := m.Free()
	assert.True(t, w > 0 && w <= 4, "one in flight has proven little: %d", w)
	assert.Equal(t, pace.Open, m.Status(now).State)
	assert.Equal(t, w, m.Widen(now, 0), "nobody has come back")
	assert.Equal(t, 2*w, m.Widen(now, w))
	assert.Equal(t, 4*w, m.Widen(now.Add(time.Second), 0), "slow services")
	turn, n, wait := m.Take(now, 1000)
	assert.Equal(t, 1000, n)
	assert.Zero(t, wait)
	assert.Equal(t, time.Second, m.Tell(now, turn, pace.Outcome{pace.Refused, time.Second}))
	assert.Zero(t, m.Free())
}

func TestIdle(t *testing.T) {
	t.Parallel()
	m := &pace.Machine{}
	assert.True(t, m.Idle(start))
	turn, _, _ := m.Take(start, 1)
	assert.False(t, m.Idle(start), "one is in flight")
	m.Tell(start, turn, pace.Outcome{})
	assert.True(t, m.Idle(start))
	m, now := limited()
	assert.False(t, m.Idle(now.Add(20*time.Second)))
	assert.True(t, m.Idle(now.Add(time.Minute)))
	_, waited := take(m, now.Add(2*time.Hour))
	assert.Zero(t, waited)
	assert.Zero(t, m.Gap(), "forgotten")
}

// A limit that is not met any more is found out: in seconds, if it was met long ago.
func TestLimitGone(t *testing.T) {
	t.Parallel()
	m, now := limited()
	gap := m.Gap()
	now = now.Add(10 * time.Minute)
	for until := now.Add(5 * time.Second); now.Before(until); {
		_, waited := take(m, now)
		now = now.Add(max(waited, ms))
		m.Take(now, 1)
	}
	assert.Less(t, m.Gap(), gap/100)
	for range 1000 {
		_, waited := take(m, now)
		now = now.Add(waited + ms)
		m.Take(now, 1)
	}
	assert.Positive(t, m.Free())
}

// Whatever is done to it, a Machine keeps its word and goes on.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{1, 2, 3, 250, 0, 9, 17, 33, 64, 128})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m, now := &pace.Machine{}, start
		var turns []pace.Turn
		for i := 0; i+1 < len(ops); i += 2 {
			op, x := ops[i], int(ops[i+1])
			switch d := time.Duration(x) * time.Duration(x) * ms; op % 8 {
			case 0, 1, 2:
				turn, n, wait := m.Take(now, x%32)
				if n < 0 || n > x%32 || turn == 0 || n < x%32 && wait <= 0 || wait > time.Minute {
					t.Fatal(turn, n, wait)
				}
				for range n {
					turns = append(turns, turn)
				}
			case 3, 4:
				if len(turns) > 0 {
					if held := m.Tell(now, turns[0], pace.Outcome{pace.Kind(op / 8 % 6), d - time.Second}); held < 0 || held > time.Minute {
						t.Fatal(held)
					}
					turns = turns[1:]
				}
			case 5:
				m.Return(now, pace.Turn(x%3), x-10)
			case 6:
				now = now.Add(-d)
			default:
				now = now.Add(d)
			}
		}
		for range 50 {
			if _, waited := take(m, now); waited > 2*time.Minute { // a hold and a gap
				t.Fatal(waited)
			} else {
				now = now.Add(waited)
			}
		}
	})
}

// A rate is forgotten an hour after the last hold began, or after two holds of the longest kind.
func TestForgotten(t *testing.T) {
	t.Parallel()
	for maxHold, knows := range map[time.Duration]time.Duration{0: time.Hour, time.Hour: 2 * time.Hour} {
		m, now := &pace.Machine{MaxHold: maxHold}, start
		for range 20 {
			turn, n, wait := m.Take(now, 2)
			for range n {
				m.Tell(now, turn, pace.Outcome{Kind: pace.Served})
			}
			now = now.Add(wait)
		}
		turn, _, _ := m.Take(now, 2)
		m.Tell(now, turn, pace.Outcome{Kind: pace.Refused, After: time.Second})
		m.Take(now.Add(knows), 0)
		assert.Positive(t, m.Gap(), maxHold)
		m.Take(now.Add(knows+1), 0)
		assert.Zero(t, m.Gap(), maxHold)
	}
}
