// Package model is what the playground shows of a policy. The library decides, so that
// what is seen is what runs.
package model

import (
	"encoding/json"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Plan is what a policy will do.
type Plan struct {
	Text     string          `json:"text"` // Policy.String
	Go       string          `json:"go"`   // the policy as a literal
	Policy   json.RawMessage `json:"policy"`
	Attempts []Attempt       `json:"attempts"`
	More     bool            `json:"more"` // there are more attempts than are shown
}

// Attempt is one of a plan, with times in seconds.
type Attempt struct {
	Attempt  int     `json:"attempt"`
	Shortest float64 `json:"shortest"` // the wait before it, as Policy.Bounds has it
	Longest  float64 `json:"longest"`
	Earliest float64 `json:"earliest"` // it begins, if attempts take no time
	Latest   float64 `json:"latest"`
}

// mostAttempts are shown.
const mostAttempts = 20

// MakePlan returns the plan of a policy in its JSON form.
func MakePlan(form []byte) (*Plan, error) {
	p, err := read(form)
	if err != nil {
		return nil, err
	}
	policy, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	limit := p.Decide(retry.State{}, retry.Verdict{Class: retry.Final}, time.Time{}).Limit
	plan := &Plan{Text: p.String(), Go: literal(p), Policy: policy, More: limit > mostAttempts}
	var last Attempt
	for n := 1; n <= limit && n <= mostAttempts; n++ {
		a := Attempt{Attempt: n}
		if n > 1 {
			shortest, longest := p.Bounds(n - 1)
			a.Shortest, a.Longest = shortest.Seconds(), longest.Seconds()
		}
		a.Earliest, a.Latest = last.Earliest+a.Shortest, last.Latest+a.Longest
		plan.Attempts = append(plan.Attempts, a)
		last = a
	}
	return plan, nil
}

func read(form []byte) (*retry.Policy, error) {
	var p retry.Policy
	if err := json.Unmarshal(form, &p); err != nil {
		return nil, err
	}
	return &p, nil
}
