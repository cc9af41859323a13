package scene

import (
	"cmp"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/pace"
)

// Way is how jobs get through a limit that they do not know.
type Way struct {
	Name    string        `json:"name"`
	Refused int           `json:"refused"` // requests
	Took    time.Duration `json:"took"`    // until the last job is done
}

// Places is how many jobs of a Backlog are under way at a time.
const Places = 100

// Backlog plays jobs that come at once behind a limit of so many requests in each window: each
// alone, and behind a Quota. A job takes 50 ms unless takes says otherwise.
func Backlog(limit int, window time.Duration, jobs int, takes time.Duration) (ways []Way) {
	s := Scene{
		Server: Window(limit, window, Seconds), Demand: at(jobs), Processes: 1, Places: Places,
		Service: cmp.Or(takes, usual.Service), MaxHold: max(time.Minute, window),
	}
	for _, way := range []struct {
		name  string
		pacer func() Pacer
	}{
		{"each waits by its own hint", func() Pacer { return Single{} }},
		{"they share a Quota", func() Pacer { return &pace.Machine{} }},
	} {
		r := Run(s, way.pacer, 1)
		ways = append(ways, Way{way.name, int(r.Refused*float64(jobs) + 0.5), r.Took[0]})
	}
	return ways
}
