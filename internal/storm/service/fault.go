package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Fault is what happens to the service. The names are its values.
type Fault string

// The faults.
const (
	// Stall: the share Severity of the workers starts nothing new. What comes
	// in waits.
	Stall Fault = "stall"
	// Outage: the share Severity of the attempts is refused at once, as by a
	// host that no process listens on. What had come in before is served.
	Outage Fault = "outage"
	// Partial: the share Severity of the attempts gets an error at once, which
	// costs the workers nothing.
	Partial Fault = "partial"
	// Brownout: the share Severity of the workers is gone, and the queue is
	// bounded, so that the service sheds load.
	Brownout Fault = "brownout"
	// Quota: in each second the service takes only the rate of calls less the share
	// Severity. It answers other attempts with a 429, which costs the workers nothing.
	Quota Fault = "quota"
)

var faults = []Fault{Stall, Outage, Partial, Brownout, Quota}

func (f Fault) known() bool { return slices.Contains(faults, f) }

func faultNames() string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Usual returns s with the fault f as it is in the tables: all of a stall or an
// outage, half of the others; a brownout has a queue of 500, a quota has hints of 1 s.
func (s Scenario) Usual(f Fault) Scenario {
	s.Fault, s.Severity, s.Queue = f, 1, 0
	if f == Partial || f == Brownout || f == Quota {
		s.Severity = 0.5
	}
	if s.Hint = 0; f == Quota {
		s.Hint = time.Second
	}
	if f == Brownout {
		s.Queue = 500
	}
	return s
}

// condition is what a service is like at a time.
type condition struct {
	workers int
	refused float64 // share of the attempts that finds nobody listening
	failed  float64 // share of the attempts that gets an error
	limited bool    // by the quota
	quota   int     // attempts that are taken in each second
}

// condition returns what the service is like, during the fault or outside it.
func (s Scenario) condition(during bool) condition {
	c := condition{workers: s.Workers}
	if !during {
		return c
	}
	switch s.Fault {
	case Stall, Brownout:
		c.workers -= int(s.Severity*float64(s.Workers) + 0.5)
	case Outage:
		c.refused = s.Severity
	case Partial:
		c.failed = s.Severity
	case Quota:
		c.limited, c.quota = true, int(s.Rate*(1-s.Severity)+0.5)
	}
	return c
}

// failure is how an attempt can fail.
type failure uint8

const (
	timedOut failure = iota // maybe served, too late
	refused                 // nobody listens
	answered                // with an error
	shed                    // the queue is full
	limited                 // the quota is used up
)

// The statuses of HTTP, whose package would be most of a program that simulates.
const (
	internalServerError = 500
	serviceUnavailable  = 503
	tooManyRequests     = 429
)

// err returns what a client would see, for the policy to classify. A refusal has the hint,
// if that is not 0.
func (f failure) err(hint time.Duration) error {
	switch f {
	case timedOut:
		return context.DeadlineExceeded
	case refused:
		return errRefused
	case answered:
		return statusError(internalServerError)
	case limited:
		return refusal(tooManyRequests, retry.RateLimited, hint)
	default:
		return refusal(serviceUnavailable, retry.Retryable, hint)
	}
}

// refusal returns the error of a status that may come with a Retry-After, with the verdict
// that retryhttp has about it.
func refusal(status statusError, class retry.Class, hint time.Duration) error {
	if hint == 0 {
		return status
	}
	return retry.Mark(status, retry.Verdict{Class: class, After: hint, NotApplied: true})
}

type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

func (e statusError) HTTPStatusCode() int { return int(e) }

// errRefused is marked as a driver that saw the dial fail would mark it.
var errRefused = retry.Mark(errors.New("connection refused"),
	retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "conn_refused"})
