//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// working migrates, runs the program until the test ends, and returns where its metrics are.
func working(t *testing.T, dsn string, flags ...string) (url string) {
	t.Helper()
	dbtest.Run(t, program.Run, "migrate", "-dsn", dsn)
	out, stop := dbtest.Start(t, program.Run, append([]string{"work", "-dsn", dsn}, flags...)...)
	t.Cleanup(func() { assert.ErrorIs(t, stop(), context.Canceled) })
	return out.Await(t, `metrics=(\S+)\n`)[1]
}

// scrape returns the samples by their names with labels.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	samples := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			samples[name], err = strconv.ParseFloat(value, 64)
			require.NoError(t, err, line)
		} else {
			assert.Equal(t, "#", name)
		}
	}
	return samples
}

// becomes waits until the list has a line with these words.
func becomes(t *testing.T, dsn string, words ...string) {
	t.Helper()
	pattern := regexp.MustCompile(strings.Join(words, `\s+`))
	eventually(t, func() bool { return pattern.MatchString(dbtest.Run(t, program.Run, "list", "-dsn", dsn)) }, pattern)
}

// eventually waits for what another process does. Unlike that of testify, it runs the
// condition where it may fail the test.
func eventually(t *testing.T, condition func() bool, what any) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), what)
	}
}

// From end to end, with the program as it is run and a command that fails:
// create a ticket that will fail with rate limit error, verify it retries with
// exponential backoff, verify after max retries it goes to on_hold, verify human can
// release from on_hold.
func TestE2ERateLimitBackoffOnHoldRelease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		quota := filepath.Join(t.TempDir(), "quota")
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
		assert.Equal(t, "ticket 1\n", dbtest.Run(t, program.Run, "add", "-dsn", db.DSN, "-name", "translate",
			"-definition", "test -e "+quota+" || { echo 'Error: 429 rate limit exceeded' >&2; exit 1; }"))
		working(t, db.DSN, "-delay", "100ms", "-interval", "10ms")
		becomes(t, db.DSN, "1", "0", onHold, "3", "0", "translate", "Max retries exceeded: transient", ".*rate limit exceeded")

		// By the clock of the database, no retry came before its delay.
		at, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (at time.Time, err error) {
			var when shared.Instant
			var details string
			err = rows.Scan(&when, &details)
			assert.Regexp(t, `"errorCategory": ?"transient"`, details)
			return when.Time, err
		}, "SELECT created_at, CAST(details AS text) FROM activity ORDER BY id")
		require.NoError(t, err)
		require.Len(t, at, 4)
		for i, delay := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			gap := at[i+1].Sub(at[i])
			// SQLite's clock is rounded, and a busy machine writes the activity a moment after the due time.
			assert.GreaterOrEqual(t, gap, delay-20*time.Millisecond, "retry %d", i+1)
			assert.Less(t, gap, delay+5*time.Second, "retry %d", i+1)
		}

		require.NoError(t, os.WriteFile(quota, nil, 0o600))
		dbtest.Run(t, program.Run, "release", "-dsn", db.DSN, "-ticket", "1", "-by", "alice")
		becomes(t, db.DSN, "1", "0", needsReview, "0", "0", "translate")
	})
}

// The program keeps the lease of an agent that works for longer than that.
func TestAgentLongerThanItsLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		runs := filepath.Join(t.TempDir(), "runs")
		working(t, db.DSN, "-lease", "2s", "-delay", "1ms", "-interval", "10ms")
		dbtest.Run(t, program.Run, "add", "-dsn", db.DSN, "-name", "long", "-definition", "echo once >> "+runs+"; sleep 3")
		becomes(t, db.DSN, "1", "0", needsReview, "0", "0", "long")
		text, err := os.ReadFile(runs)
		require.NoError(t, err)
		assert.Equal(t, "once\n", string(text))
	})
}

// An agent that takes longer than -timeout has failed, for a passing reason. The metrics are at the
// port that is given.
func TestTimeoutAndPort(t *testing.T) {
	t.Parallel()
	db, free := dbtest.New(t, retrytable.SQLite), httptest.NewServer(nil)
	free.Close()
	url := working(t, db.DSN, "-timeout", "500ms", "-delay", "1ms", "-interval", "10ms", "-metrics", free.Listener.Addr().String())
	assert.Equal(t, free.URL+"/metrics", url)
	dbtest.Run(t, program.Run, "add", "-dsn", db.DSN, "-name", "slow", "-definition", "exec sleep 60")
	becomes(t, db.DSN, onHold, "3", "0", "slow", "Max retries exceeded: transient")
	scrape(t, url)
}

// The four metrics, as Prometheus scrapes them.
func TestMetricsAreScraped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		url := working(t, db.DSN, "-delay", "20ms", "-interval", "10ms")
		assert.Regexp(t, `^http://127\.0\.0\.1:\d+/metrics$`, url)
		before := scrape(t, url)
		assert.Contains(t, before, "retry_success_rate")
		assert.NotEqual(t, before["retry_success_rate"], before["retry_success_rate"], "NaN") //nolint:testifylint // what a NaN is
		assert.Contains(t, before, `tickets_retried_total{category="transient"}`, "from the start")

		add := func(name, definition string) {
			dbtest.Run(t, program.Run, "add", "-dsn", db.DSN, "-name", name, "-definition", definition)
		}
		add("limited", "echo 'rate limit' >&2; exit 1")                            // 3 retries of 20, 40, 80 ms
		add("syntax", "if true; do")                                               // 1 of 0
		add("flaky", "test $RETRY_COUNT = 1 || { echo 'timed out' >&2; exit 1; }") // 1 of 20 ms, which succeeds
		add("fine", "true")
		becomes(t, db.DSN, onHold, "3", "0", "limited")
		becomes(t, db.DSN, onHold, "1", "0", "syntax")
		becomes(t, db.DSN, needsReview, "1", "0", "flaky")
		becomes(t, db.DSN, needsReview, "0", "0", "fine")

		var got map[string]float64
		eventually(t, func() bool { // counted just after the state
			got = scrape(t, url)
			return got["retry_success_rate"] == 100*1.0/5
		}, "1 of 5 retries succeeded")
		assert.InDelta(t, 0.160, got["retry_delay_seconds_sum"], 1e-9)
		for sample, want := range map[string]float64{
			`tickets_retried_total{category="transient"}`:            4,
			`tickets_retried_total{category="code_error"}`:           1,
			`tickets_retried_total{category="api_error"}`:            0,
			`tickets_retry_exhausted_total{category="transient"}`:    1,
			`tickets_retry_exhausted_total{category="code_error"}`:   1,
			`tickets_retry_exhausted_total{category="system_error"}`: 0,
			`retry_delay_seconds_count`:                              5,
			`retry_delay_seconds_bucket{le="0"}`:                     1,
			`retry_delay_seconds_bucket{le="0.25"}`:                  5,
			`retry_delay_seconds_bucket{le="4096"}`:                  5,
		} {
			assert.InDelta(t, want, got[sample], 0, sample)
			assert.Contains(t, got, sample)
		}
	})
}

// Every query of the dashboard is about metrics and labels that there are, and it shows all
// four.
func TestDashboard(t *testing.T) {
	t.Parallel()
	url, err := newMetrics().serve(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	labels := map[string]map[string]bool{} // by metric
	for sample := range scrape(t, url) {
		name, rest, _ := strings.Cut(sample, "{")
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for _, match := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			labels[name][match[1]] = true
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, panel := range dashboard.Panels {
		assert.False(t, ids[panel.ID], "panel %d is there twice", panel.ID)
		ids[panel.ID] = true
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			query := target.Expr
			assert.Equal(t, strings.Count(query, "("), strings.Count(query, ")"), query)
			legend := regexp.MustCompile(`\{\{(\w+)\}\}`).FindStringSubmatch(target.LegendFormat)
			by := regexp.MustCompile(`by \((\w+)\)`).FindAllStringSubmatch(query, -1)
			for _, metric := range regexp.MustCompile(`\b(?:tickets|retry)_\w+`).FindAllString(query, -1) {
				require.Contains(t, labels, metric, query)
				shown[regexp.MustCompile(`_(?:bucket|sum|count)$`).ReplaceAllString(metric, "")] = true
				for _, label := range by {
					assert.Contains(t, labels[metric], label[1], query)
				}
				if len(legend) > 0 && legend[1] != "instance" { // which Prometheus adds
					assert.Contains(t, labels[metric], legend[1], target.LegendFormat)
					assert.Contains(t, by, []string{"by (" + legend[1] + ")", legend[1]}, query)
				}
			}
			rest := regexp.MustCompile(`\b(?:tickets|retry)_\w+|\[\w+\]|\[\$__rate_interval\]|by \(\w+\)`).ReplaceAllString(query, "")
			for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(rest, -1) {
				assert.Contains(t, []string{"sum", "rate", "increase", "histogram_quantile"}, word, query)
			}
		}
	}
	assert.Equal(t, map[string]bool{
		"tickets_retried_total": true, "tickets_retry_exhausted_total": true, "retry_delay_seconds": true, "retry_success_rate": true,
	}, shown)
}

// What is wrong with the command line is said with its name and value.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	missing := filepath.Join(t.TempDir(), "typo.db")
	dbtest.Run(t, program.Run, "migrate", "-dsn", file)
	dbtest.Run(t, program.Run, "add", "-dsn", file, "-assignee", "human")
	ctx, stop := context.WithTimeout(t.Context(), limit) // in case that something serves after all
	defer stop()
	for want, args := range map[string][]string{
		"-delay: 0s: must be positive":                                    {"work", "-delay", "0", "-dsn", file},
		"-interval: -1s: must be positive":                                {"work", "-interval", "-1s", "-dsn", file},
		"-lease: 0s: must be positive":                                    {"work", "-lease", "0", "-dsn", file},
		"-timeout: 0s: must be positive":                                  {"work", "-timeout", "0", "-dsn", file},
		"-workers: 0: must be positive":                                   {"work", "-workers", "0", "-dsn", file},
		"-max-delay: 1s: must not be less than -delay: 30s":               {"work", "-max-delay", "1s", "-dsn", file},
		"-metrics: 0.0.0.0:0: must be a loopback address":                 {"work", "-metrics", "0.0.0.0:0", "-dsn", file},
		"-metrics: :0: must be a loopback address":                        {"work", "-metrics", ":0", "-dsn", file},
		"-metrics: listen tcp: address 127.0.0.1: missing port":           {"work", "-metrics", "127.0.0.1", "-dsn", file},
		"tickets: a command is missing":                                   nil,
		"tickets list: flag provided but not defined: -delay":             {"list", "-delay", "1s"},
		missing + ": no such file":                                        {"list", "-dsn", missing},
		missing + ": no such file or directory":                           {"release", "-ticket", "1", "-by", "alice", "-dsn", missing},
		"the DSN must be postgres://user@host/name or the name of a file": {"work", "-dsn", "host=127.0.0.1 dbname=x"},
		`release: -by: "": must name a person`:                            {"release", "-ticket", "1", "-by", "", "-dsn", file},
		`release: -ticket: "7": must be on_hold`:                          {"release", "-ticket", "7", "-by", "alice", "-dsn", file},
		`add: -assignee: "robot": must be agent or human`:                 {"add", "-assignee", "robot", "-dsn", file},
		"no such file or directory":                                       {"migrate", "-print", "-dsn", missing},
	} {
		err, code := program.Run(ctx, args, io.Discard), 2
		if strings.Contains(want, "must be on_hold") {
			code = 1
		}
		assert.ErrorContains(t, err, want, args)
		assert.Equal(t, code, shared.ExitCode(err), args)
	}
	assert.NoFileExists(t, missing)
	for _, args := range [][]string{{"work"}, {"migrate"}, {"add"}, {"list"}, {"release", "-ticket", "1", "-by", "alice"}} {
		assert.ErrorContains(t, program.Run(ctx, args, io.Discard), "the DSN is missing", args)
	}
}

// The clock of the database decides: no other is read to say when something is due.
func TestNoClockOfItsOwn(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		n++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if s, ok := node.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					assert.NotContains(t, []string{"Now", "Since", "Until"}, s.Sel.Name, name)
				}
			}
			return true
		})
	}
	assert.NotZero(t, n)
}

// An engine whose clock is an hour off, either way, to the database, does what all
// others do.
func TestClockAnHourOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		dbtest.Each(t, func(t *testing.T, db *shared.DB) {
			now := time.Now().Add(-off)
			db, clock := dbtest.StopClock(t, db, now)
			s := newSystem(t, db)
			id := s.add(0)
			s.attempt(errLimited)
			s.waitsFor(id, 1, 30*time.Second)
			assert.WithinDuration(t, now.Add(30*time.Second), s.changes[0].RetryAfter, 10*time.Second)
			clock.Set(now.Add(29 * time.Second))
			s.idle("1 s is left")
			clock.Set(now.Add(30 * time.Second))
			s.attempt(nil)
		})
	}
}
