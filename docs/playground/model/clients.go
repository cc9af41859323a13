package model

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Clients is what a thousand clients do that fail together: when they make which attempt.
type Clients struct {
	// Cells counts the attempts: a row for each attempt of a client, with a column for
	// each Column seconds. The last row has all later attempts too.
	Cells  [][]int `json:"cells"`
	Column float64 `json:"column"`
	More   bool    `json:"more"`  // there are later attempts than there are rows
	Later  int     `json:"later"` // attempts after the last column

	Attempts  int     `json:"attempts"`
	Busiest   int     `json:"busiest"`   // retries in the busiest second
	Through   int     `json:"through"`   // clients that succeeded in the end,
	GaveUp    int     `json:"gaveUp"`    // and those that did not
	Hammering int     `json:"hammering"` // clients that were stopped because they make too many attempts
	Last      float64 `json:"last"`      // when the last one succeeded, in seconds
	Outage    float64 `json:"outage"`    // how long every attempt fails
}

const (
	clients     = 1000
	columns     = 80
	mostRows    = 12
	mostRetries = 200 // of a client
	// failFast is what it takes to learn that an attempt was refused, so that time passes
	// for a policy that does not wait.
	failFast = time.Millisecond
	// The bounds of an outage in seconds.
	longestOutage = 24 * 60 * 60
)

// errOutage is a failure that says nothing but that the service is not there.
var errOutage = retry.MarkRetryable(errors.New("outage"))

// MakeClients lets a thousand clients with one policy, in its JSON form, meet an outage
// of some seconds. All make their first attempt at the moment it begins. Every attempt
// during it fails, and every attempt after it succeeds.
func MakeClients(form []byte, outage float64) (*Clients, error) {
	return makeClients(form, outage, 0)
}

// makeClients is MakeClients with the end of the picture in seconds; 0 is the last attempt.
func makeClients(form []byte, outage, end float64) (*Clients, error) {
	p, err := read(form)
	if err != nil {
		return nil, err
	}
	if !(outage > 0 && outage <= longestOutage) {
		return nil, errors.New("outage: must be above 0 s and at most 24 h")
	}
	p.Rand = rand.New(rand.NewPCG(16, 1000)) // the same picture for the same policy
	down := time.Duration(outage * float64(time.Second))
	c := &Clients{Outage: outage}
	var attempts []made
	for range clients {
		attempts = c.client(p, down, attempts)
	}
	c.Attempts = len(attempts)
	c.count(attempts, end)
	return c, nil
}

// made is an attempt, and how long after the first one it was made.
type made struct {
	number int
	at     time.Duration
}

// client appends the attempts of one client.
func (c *Clients) client(p *retry.Policy, outage time.Duration, attempts []made) []made {
	begin := time.Unix(0, 0)
	state := retry.State{First: begin}
	for at, n := time.Duration(0), 1; ; n++ {
		attempts = append(attempts, made{n, at})
		if at >= outage {
			c.Through++
			c.Last = max(c.Last, at.Seconds())
			return attempts
		}
		if n > mostRetries {
			c.Hammering++
			return attempts
		}
		d := p.Next(state, errOutage, begin.Add(at))
		if !d.Retry {
			c.GaveUp++
			return attempts
		}
		at += max(d.Delay, failFast)
		state = d.State
	}
}

// count makes the picture of all attempts up to an end.
func (c *Clients) count(attempts []made, end float64) {
	last, rows := c.Outage, 1
	for _, a := range attempts {
		last, rows = max(last, a.at.Seconds()), max(rows, a.number)
	}
	if end > 0 {
		last = end
	}
	c.More = rows > mostRows
	c.Cells = make([][]int, min(rows, mostRows))
	for i := range c.Cells {
		c.Cells[i] = make([]int, columns)
	}
	c.Column = last / columns
	seconds := map[time.Duration]int{}
	for _, a := range attempts {
		if a.at.Seconds() > last {
			c.Later++
		} else {
			c.Cells[min(a.number, mostRows)-1][min(int(a.at.Seconds()/c.Column), columns-1)]++
		}
		if a.number > 1 {
			seconds[a.at/time.Second]++
		}
	}
	for _, n := range seconds {
		c.Busiest = max(c.Busiest, n)
	}
}
