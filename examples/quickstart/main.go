// Quickstart sends one HTTP request to a server in trouble, and shows how a
// policy makes it succeed:
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -attempts 2   # gives up too early: exit code 1
//
// The failures are real: at first no server listens on the port, then a
// connection is reset, then the answers are 503 and 429.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// run returns the exit code.
func run(args []string, out io.Writer) int {
	policy := retry.Policy{Name: "quickstart"}
	server := &troubledServer{}
	deadline, err := parse(args, out, &policy, server)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(out, err)
		return 2
	}
	if err := server.reserve(); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	defer server.close()

	fmt.Fprintf(out, "%v\n\n", policy)
	timeline := &timeline{out: out, start: time.Now()}
	policy.Observer = retry.Observers(&retry.Observer{Event: timeline.event}, &retry.Observer{Event: server.event})
	answer, err := get(&policy, server.url(), deadline)
	return timeline.summarize(answer, err)
}

// get is all the code that is needed: a Transport with a Policy under a usual
// http.Client.
func get(policy *retry.Policy, url string, deadline time.Duration) (string, error) {
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK { // when retries run out, the last response is returned
		return "", fmt.Errorf("the last answer was %s", resp.Status)
	}
	return fmt.Sprintf("%s: %s", resp.Status, body), nil
}

// timeline prints one line for every event.
type timeline struct {
	out    io.Writer
	start  time.Time
	last   retry.Event
	waited time.Duration
}

const columns = "%8v  %7v  %-12v  %-12v  %8v  %v"

func (t *timeline) event(_ context.Context, e retry.Event) {
	if t.last.Kind == 0 {
		fmt.Fprintf(t.out, columns+"\n", "time", "attempt", "what", "class", "wait", "error")
	}
	t.last = e
	switch e.Kind {
	case retry.Retrying:
		t.waited += e.Delay
		t.print(e.Attempt, e.Verdict.Category, e.Verdict.Class, milliseconds(e.Delay), innermost(e.Err))
	case retry.GaveUp:
		t.print(e.Attempt, e.Verdict.Category, e.Verdict.Class, "gave up", innermost(e.Err))
	case retry.Held: // there is no Quota
	case retry.Succeeded:
		t.print(e.Attempt, "success", "", "", "")
	}
}

func (t *timeline) print(attempt int, what string, class, wait, problem any) {
	line := fmt.Sprintf(columns, milliseconds(time.Since(t.start)), attempt, what, class, wait, problem)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

// innermost returns the innermost error.
func innermost(err error) error {
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) && gaveUp.Err != nil {
		err = gaveUp.Err
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// summarize returns the exit code.
func (t *timeline) summarize(answer string, err error) int {
	when := fmt.Sprintf("on attempt %d after %s, %s of it waiting",
		t.last.Attempt, milliseconds(time.Since(t.start)), milliseconds(t.waited))
	if err != nil {
		fmt.Fprintf(t.out, "\ngave up (%v) %s\n%v\n", t.last.Stop, when, err)
		return 1
	}
	fmt.Fprintf(t.out, "\ngot through %s\n%s\n", when, answer)
	return 0
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// parse reads the settings of the policy and the server from the command line.
func parse(args []string, out io.Writer, p *retry.Policy, s *troubledServer) (deadline time.Duration, err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&p.MaxAttempts, "attempts", 5, "how often to try, the first time included")
	initial := flags.Duration("initial", 200*time.Millisecond, "the first wait, which then doubles")
	flags.DurationVar(&p.MaxDelay, "max-delay", 2*time.Second, "the longest wait, unless the server asks for one")
	jitters := map[string]retry.Jitter{"full": retry.FullJitter, "equal": retry.EqualJitter, "none": retry.NoJitter}
	jitter := flags.String("jitter", "full", "how the waits are spread: full, equal or none")
	seed := flags.Uint64("seed", 0, "make the jitter the same every time; 0 is random")
	file := flags.String("json", "", "read the policy from this file instead of the flags")
	flags.DurationVar(&deadline, "deadline", 10*time.Second, "how long it may take altogether")
	flags.DurationVar(&s.retryAfter, "retry-after", time.Second, "what the server asks for when it answers 429; 0 is nothing")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	p.Backoff = retry.Exponential{Initial: *initial}
	if p.Jitter = jitters[*jitter]; p.Jitter == nil {
		return 0, fmt.Errorf("-jitter %s: want full, equal or none", *jitter)
	}
	if *seed != 0 {
		p.Rand = rand.New(rand.NewPCG(*seed, 0)) // one request: no other goroutine uses it
	}
	if *file != "" {
		data, err := os.ReadFile(*file)
		if err != nil {
			return 0, err
		}
		return deadline, json.Unmarshal(data, p)
	}
	return deadline, p.Validate()
}
