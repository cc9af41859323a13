package engine

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/retryjob"
)

// The names under which a copied message has its job, and a dead letter its end.
const (
	StateKey = "retry-state"
	LostKey  = "retry-lost"  // 1 if there is an attempt that the State does not have
	DueKey   = "retry-due"   // in milliseconds of Unix time
	ErrorKey = "retry-error" // why the job was given up
)

// MaxError is how much of an error's text an engine keeps, if it has room for so much.
const MaxError = 8 << 10

// Load reads what a copied message has of its job, and when it is due. The error says that
// somebody has changed it.
func Load(get func(name string) string, job *retryjob.Stored) (due time.Time, err error) {
	number := func(name string) (n int64) {
		if text := get(name); text != "" && err == nil {
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		return n
	}
	job.Lost = int(min(max(number(LostKey), 0), 1))
	due = time.UnixMilli(number(DueKey))
	if bad := job.State.UnmarshalText([]byte(get(StateKey))); bad != nil {
		err = cmp.Or(err, fmt.Errorf("%s: %w", StateKey, bad))
	}
	return due, err
}

// Save writes what Load reads. No due time means that the job is due.
func Save(set func(name, value string), job *retryjob.Stored, due time.Time) error {
	text, err := job.State.MarshalText()
	set(StateKey, string(text))
	set(DueKey, strconv.FormatInt(Milli(due), 10))
	if job.Lost > 0 {
		set(LostKey, strconv.Itoa(job.Lost))
	}
	return err
}

// Take takes what Save has written, and the fields with other names, out of a message, and
// returns them. A function that publishes what it sees of the message begins anew.
func Take(fields map[string]string, others ...string) map[string]string {
	taken := map[string]string{}
	for _, name := range append([]string{StateKey, LostKey, DueKey}, others...) {
		if value, ok := fields[name]; ok {
			taken[name] = value
			delete(fields, name)
		}
	}
	return taken
}
