// Package model is what the playground shows of a policy. The library decides, so that
// what is seen is what runs.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
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

// Ask answers what the page asks. A question is a JSON list of texts and numbers: the
// name of a function and its arguments. The answer is JSON, and has an "error" if
// something is wrong:
//
//	["plan", policy]            a Plan
//	["go", code]                the same, of a policy written in Go
//	["clients", policy, outage] a Clients
//	["compare", outage]         a list of Compared
//	["storm", policy, fault]    a Storm
//	["backlog", n, seconds]     a Backlog behind n requests in each time of seconds
//
// It is safe for concurrent use.
func Ask(question []byte) []byte {
	answer, err := ask(question)
	if err != nil {
		answer = map[string]string{"error": err.Error()}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return b
}

func ask(question []byte) (any, error) {
	var q []any
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	arguments := make([]any, 3)
	copy(arguments, q)
	name, _ := arguments[0].(string)
	text, _ := arguments[1].(string)
	switch name {
	case "plan":
		return MakePlan([]byte(text))
	case "go":
		form, err := FromGo(text)
		if err != nil {
			return nil, err
		}
		return MakePlan(form)
	case "clients":
		outage, _ := arguments[2].(float64)
		return MakeClients([]byte(text), outage)
	case "compare":
		outage, _ := arguments[1].(float64)
		return Compare(outage)
	case "storm":
		fault, _ := arguments[2].(string)
		return MakeStorm([]byte(text), fault)
	case "backlog":
		n, _ := arguments[1].(float64)
		seconds, _ := arguments[2].(float64)
		return MakeBacklog(n, seconds)
	default:
		return nil, errors.New("question: nobody knows " + name)
	}
}
