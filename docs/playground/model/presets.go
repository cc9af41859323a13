package model

import (
	"encoding/json"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Preset is a policy to start from.
type Preset struct {
	Name   string       `json:"name"`
	About  string       `json:"about"`
	Policy retry.Policy `json:"policy"`
}

// Presets returns policies for usual jobs, and those of others as far as a policy can
// say them.
func Presets() []Preset {
	return []Preset{
		{"This library", "the zero Policy", retry.Policy{}},
		{"HTTP client", "a user waits: short waits, and not many", retry.Policy{
			MaxAttempts: 3, Backoff: retry.Exponential{Initial: 200 * time.Millisecond}, MaxDelay: 10 * time.Second,
		}},
		{"Job table", "nobody waits: from seconds to hours, then a human", retry.Policy{
			MaxAttempts: 8, Backoff: retry.Schedule{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		}},
		{"Reconnect for ever", "a stream or a watch: a minute of life starts a new count", retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: 500 * time.Millisecond}, MaxDelay: time.Minute, ResetAfter: time.Minute,
		}},
		{"AWS", "the standard mode of the SDKs, without its token bucket", retry.Policy{
			MaxAttempts: 3, Backoff: retry.Exponential{Initial: time.Second}, MaxDelay: 20 * time.Second, Jitter: retry.FullJitter,
		}},
		{"gRPC", "connection backoff", retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: time.Second, Multiplier: 1.6}, MaxDelay: 2 * time.Minute,
			Jitter: retry.Proportional(0.2),
		}},
		{"cenkalti/backoff", "NewExponentialBackOff, for at most 15 minutes", retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5}, MaxDelay: time.Minute,
			Jitter: retry.Proportional(0.5), MaxElapsed: 15 * time.Minute,
		}},
		{"Kubernetes", "DefaultBackoff of client-go's retry package", retry.Policy{
			MaxAttempts: 4, Backoff: retry.Exponential{Initial: 10 * time.Millisecond, Multiplier: 5}, Jitter: retry.Proportional(0.1),
		}},
	}
}

// Compared is a preset with what its policy does.
type Compared struct {
	Preset

	Plan    *Plan    `json:"plan"`
	Clients *Clients `json:"clients"`
}

// window is how much of the time after the beginning of an outage is compared, as a
// multiple of the outage.
const window = 5

// Compare returns what every preset does, for an outage of some seconds.
func Compare(outage float64) ([]Compared, error) {
	var all []Compared
	for _, preset := range Presets() {
		form, err := json.Marshal(preset.Policy)
		if err != nil {
			return nil, err
		}
		plan, err := MakePlan(form)
		if err != nil {
			return nil, err
		}
		clients, err := makeClients(form, outage, window*outage)
		if err != nil {
			return nil, err
		}
		all = append(all, Compared{preset, plan, clients})
	}
	return all, nil
}
