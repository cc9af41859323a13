package pace

import "time"

// grow makes the rate or the window larger after a step without a refusal in which somebody waits.
func (m *Machine) grow(now time.Time) {
	if now.After(m.wanted) || m.hold.After(now) {
		return
	}
	step := shortStep
	if m.window == 0 && m.sure {
		step = min(max(m.hold.Sub(m.since)*3/2, 4*m.gap), longStep)
	}
	if now.Sub(m.grew) < step || m.window > m.out {
		return
	}
	m.grew = now
	if m.window > 0 { // refusals come back faster
		m.window *= 2
		m.rowEnds()
		return
	}
	m.steps++
	m.good = m.gap
	m.gap = max(time.Duration(float64(m.gap)/m.factor), 1)
	m.factor = min(3*m.factor-2, 2)
	if next := now.Add(-m.gap); m.last.Before(next) {
		m.last = next
	}
	if m.gap < shortestGap || m.steps >= provenSteps && m.now.gone > provenServed {
		m.gap, m.free = 0, max(2*m.out, 16)
	}
}

// serve counts a success.
func (m *Machine) serve(now time.Time) {
	m.rowEnds()
	m.lies = m.lies || now.Before(m.claim)
	m.served++
	if m.window > 0 && !now.After(m.wanted) {
		m.window++
	}
	if m.free == 0 && m.gap == 0 && m.served >= provenServed {
		m.free, m.grew = m.window, now
	}
}

// rowEnds notes that a turn was not refused after some that were.
func (m *Machine) rowEnds() {
	if m.row > 0 {
		lasted := m.last.Sub(m.rowFrom)
		if m.row == 1 {
			lasted = m.stretch[0] * 3 / 4
		}
		m.row, m.stretch = 0, [2]time.Duration{min(lasted, m.stretch[1]), lasted}
	}
	if m.gap > 0 {
		m.window = 0
	}
}

// nothingLeft believes a success, until others show that it need not be believed.
func (m *Machine) nothingLeft(now time.Time, after time.Duration) time.Duration {
	if m.lies {
		return 0
	}
	if m.spent++; m.passed > 1 {
		m.spent = 0
	}
	if m.spent == doubted { // try one turn without the hold
		m.spent, m.claim, m.out, m.passed = 0, now.Add(after), 0, 0
		m.turn = m.turn.next()
		return 0
	}
	return m.begin(now, after)
}

// refuse begins a hold.
func (m *Machine) refuse(now time.Time, after time.Duration) time.Duration {
	m.spent, m.claim = 0, time.Time{}
	m.now.nos++
	m.now.gone = max(m.now.gone-1, 0)
	if m.passed = max(m.passed-1, 0); m.passed > 0 {
		m.rowEnds()
	}
	if m.row++; m.row == 1 {
		m.rowFrom = now
		after = max(after, m.stretch[0]*3/4)
	}
	if after == 0 {
		after = blindHold
	}
	return m.begin(now, min(max(after, now.Sub(m.rowFrom)/2), m.maxHold()))
}

// refuseLate hears of a refusal of an attempt that began before the hold.
func (m *Machine) refuseLate(now time.Time, turn Turn, after time.Duration) time.Duration {
	if turn.next() == m.turn && m.past.gone > 1 {
		m.past.gone--
		m.past.nos++
		m.past.late++
		m.past.passed--
		if !m.ended {
			m.now.gone = max(m.now.gone-1, 0)
		}
		m.pace()
	}
	end := now.Add(after)
	if after == 0 || end.Sub(m.hold) <= time.Second+after/20 { // a hint is rounded
		return 0
	}
	m.hold, m.grew, m.now.began, m.last = end, end, end, end.Add(-m.gap)
	return after
}

// begin begins a hold.
func (m *Machine) begin(now time.Time, after time.Duration) time.Duration {
	end := now.Add(after)
	m.learn(now, end)
	m.turn = m.turn.next()
	m.since, m.hold, m.last, m.grew = now, end, end.Add(-m.gap), end
	m.out, m.served, m.passed, m.good = 0, 0, 0, 0
	if m.wanted = end.Add(slack + 2*m.gap); m.ended {
		m.wanted = time.Time{}
	}
	return after
}

func (t Turn) next() Turn { return max(t+1, 1) }

// learn sets the rate after a cycle that ends with a hold.
func (m *Machine) learn(now, end time.Time) {
	free := m.free > 0
	m.free, m.ended = 0, true
	switch {
	case free: // nobody has counted
		m.gap, m.window = 0, 1
	case now.After(m.wanted): // nobody waited
		if m.past.gone = 0; m.gap == 0 {
			m.window = 1
		}
	case m.now.gone == 0: // or the hold was too short: one at a time, until one is served
		m.window, m.ended, m.sure = 1, false, m.sure && m.row < fewServed
	default:
		m.sure = m.gap > 0 && m.past.lasted > 0
		m.before.add(m.past, m.whole)
		if !m.sure {
			m.before = mean{}
		}
		m.was, m.past = m.gap, m.now
		m.past.passed, m.past.lasted = m.passed, max(end.Sub(m.now.began), shortestCycle)
		m.window = 0
		m.ended = m.past.lasted >= shortestPeriod && m.past.gone >= fewServed || m.past.lasted > 8*shortestPeriod
		m.whole = m.ended
		m.pace()
	}
}

// add halves what is older than the cycle, if that has ended.
func (m *mean) add(c cycle, ended bool) {
	if ended {
		m.gone, m.nos = (m.gone+float64(c.gone))/2, (m.nos+float64(c.nos))/2
		m.lasted = (m.lasted + float64(c.lasted)) / 2
	}
}

// pace sets the gap by the last cycle.
func (m *Machine) pace() {
	if m.past.gone == 0 {
		return
	}
	n, r := float64(m.past.gone)+m.before.gone, max(float64(m.past.nos)+m.before.nos, 1)
	each := (float64(m.past.lasted) + m.before.lasted) / n
	gap := each / 2
	if m.factor = 2; m.sure && m.past.nos > 0 {
		m.factor = 1.1
		slower := float64(1+m.past.late) / float64(1+max(m.past.passed, 0))
		most := min(each*2, max(each, float64(longestGap)))
		if n >= fewServed*r {
			most = each / min(n/r/fewServed, fastest)
		}
		gap = min(max(float64(m.was)*(1+slower), each/fastest), most)
		if m.good > 0 {
			gap = float64(m.good)
		}
	}
	m.gap = min(max(time.Duration(gap), shortestGap), m.maxHold())
}
