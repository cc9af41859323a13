package model

import (
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// Storm is what a policy does to a service that stalls.
type Storm struct {
	Seconds  []int   `json:"seconds"`  // since the fault began
	Rate     float64 `json:"rate"`     // calls per second
	Capacity float64 `json:"capacity"` // attempts per second that the service can serve
	Lines    []Line  `json:"lines"`
	Fault    [2]int  `json:"fault"` // its begin and its end

	// Background is the share of the attempts that fail on a day without the fault.
	Background float64 `json:"background"`
}

// Line is one of the policies that are compared.
type Line struct {
	Name          string  `json:"name"`
	Attempts      []int   `json:"attempts"` // in each second
	Good          []int   `json:"good"`     // calls that began in it and succeeded
	Amplification float64 `json:"amplification"`
	Recovery      float64 `json:"recovery"` // in seconds; -1 is never
	Everyday      float64 `json:"everyday"` // share of the calls that succeed on a day without the fault
}

// background is that of the contract of the Budget in docs/evidence/storms.md.
const background = 0.02

// MakeStorm simulates a fault under a policy in its JSON form, with and without a
// budget, beside no retries. No retry helps in a stall, so there a budget can only do
// little harm. What retries are good for shows on another day, when few attempts fail.
func MakeStorm(form []byte, fault string) (*Storm, error) {
	p, err := read(form)
	if err != nil {
		return nil, err
	}
	s := service.Default()
	// A tenth of the picture in the README: 10 clients instead of 100, so that a browser
	// takes no time.
	s.Rate, s.Workers, s.After = 80, 1, time.Minute
	everyday := s.Usual(service.Partial)
	everyday.Severity, everyday.Duration = background, time.Minute
	s = s.Usual(service.Fault(fault))
	storm := &Storm{Rate: s.Rate, Capacity: s.Capacity(), Fault: [2]int{0, int(s.Duration.Seconds())}, Background: background}
	const before, after = 10, 60
	begin := int(s.Warmup.Seconds())
	for second := -before; second < storm.Fault[1]+after; second++ {
		storm.Seconds = append(storm.Seconds, second)
	}
	for _, strategy := range []service.Strategy{
		{Name: "with a budget", Policy: *p, Budget: func() *retry.Budget { return &retry.Budget{} }},
		{Name: "without a budget", Policy: *p},
		service.NoRetries(),
	} {
		result, err := service.Run(s, strategy)
		if err != nil {
			return nil, err
		}
		other, err := service.Run(everyday, strategy)
		if err != nil {
			return nil, err
		}
		from, to := begin-before, begin+storm.Fault[1]+after
		recovery := -1.0
		if result.Recovery != service.Never {
			recovery = result.Recovery.Seconds()
		}
		storm.Lines = append(storm.Lines, Line{
			Name:          strategy.Name,
			Attempts:      result.Attempts[from:to],
			Good:          result.Good[from:to],
			Amplification: result.Amplification,
			Recovery:      recovery,
			Everyday:      other.During,
		})
	}
	return storm, nil
}

// Backlog is what becomes of jobs that come at once, behind a limit that they do not know.
type Backlog struct {
	Jobs int         `json:"jobs"`
	Ways []scene.Way `json:"ways"` // each alone, and behind a Quota
}

// MakeBacklog simulates 1,000 jobs behind a limit of n requests in a time of seconds.
func MakeBacklog(n, seconds float64) (*Backlog, error) {
	const jobs = 1000
	if !(n >= 1 && n <= jobs && seconds > 0 && seconds <= 3600) {
		return nil, errors.New("limit: must be 1 to 1000 requests in at most 1 h")
	}
	return &Backlog{jobs, scene.Backlog(int(n), time.Duration(seconds*float64(time.Second)), jobs, 0)}, nil
}
