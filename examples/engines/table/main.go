// Table makes docs/evidence/engines.md from what the conformance tests of the adapters print, and
// from what compare has measured:
//
//	go run ./compare >table/compare.json
//	./page.sh
//
// On a machine that is not quiet, LATE=docs/evidence/engines.md ./page.sh keeps how late the attempts were
// on that page, and sees all else again.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

//go:embed engines.md.tmpl
var page string

//go:embed compare.json
var measured []byte

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// column is what was seen of one engine.
type column struct {
	Engine  string
	Late    time.Duration     // the most of all scripts
	Results map[string]string // by script: why it differs or was left out, or nothing
}

// Passed is the number of scripts that do not differ.
func (c column) Passed() (n int) {
	for _, why := range c.Results {
		if why == "" {
			n++
		}
	}
	return n
}

// difference is a reason for which scripts differ on some engines.
type difference struct{ Engines, Scripts, Why string }

// differences has a line for each reason and the scripts that differ for it, with all engines
// of which it is true.
func differences(columns []column) (all []difference) {
	for _, c := range columns {
		scripts := map[string][]string{}
		var reasons []string
		for _, script := range enginetest.Scripts() {
			if why := c.Results[script]; why != "" {
				if scripts[why] == nil {
					reasons = append(reasons, why)
				}
				scripts[why] = append(scripts[why], script)
			}
		}
		for _, why := range reasons {
			d := difference{c.Engine, strings.Join(scripts[why], "; "), why}
			same := func(other difference) bool { return other.Scripts == d.Scripts && other.Why == d.Why }
			if i := slices.IndexFunc(all, same); i >= 0 {
				all[i].Engines += "; " + c.Engine
			} else {
				all = append(all, d)
			}
		}
	}
	return all
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	quiet := flags.String("late", "", "the page from which to take how late attempts were")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: table [-late PAGE] ENGINE=TEST=FILE…")
	}
	late, err := kept(*quiet)
	if err != nil {
		return err
	}
	var columns []column
	for _, arg := range flags.Args() {
		parts := strings.SplitN(arg, "=", 3)
		if len(parts) < 3 {
			return fmt.Errorf("%s: want ENGINE=TEST=FILE", arg)
		}
		file, err := os.Open(parts[2])
		if err != nil {
			return err
		}
		c, err := read(parts[0], parts[1], file)
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", parts[2], err)
		}
		if d, ok := late[c.Engine]; ok {
			c.Late = d
		}
		columns = append(columns, c)
	}
	compared, err := compared()
	if err != nil {
		return err
	}
	return template.Must(template.New("").Parse(page)).Execute(out, map[string]any{
		"Columns": columns, "Differences": differences(columns), "Scripts": enginetest.Scripts(), "Compared": compared,
	})
}

var seen = regexp.MustCompile(`(?m)^\| ([^|]+) \| \d+ \| (\S+) \|`)

// kept returns how late the attempts of each engine were on a page. No page has none.
func kept(path string) (map[string]time.Duration, error) {
	if path == "" {
		return nil, nil
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	late := map[string]time.Duration{}
	for _, m := range seen.FindAllStringSubmatch(string(page), -1) {
		if late[m[1]], err = time.ParseDuration(m[2]); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// row is what compare has measured of an engine.
type row struct {
	Engine, Own, Message, Adapter string
	OwnTime, OurTime              time.Duration // of a retry
	Extra                         float64
	OwnRun, Ours                  shown
	Lines                         int // of set-up
}

// Ratio compares the times.
func (r row) Ratio() string { return fmt.Sprintf("%.2f×", float64(r.OurTime)/float64(r.OwnTime)) }

// Theirs is the time of the engine's own policy.
func (r row) Theirs() string { return fmt.Sprintf("%.2f ms", 1e3*r.OwnTime.Seconds()) }

// Mine is that of the adapter.
func (r row) Mine() string { return fmt.Sprintf("%.2f ms", 1e3*r.OurTime.Seconds()) }

// shown is what one policy did.
type shown struct {
	Hint           time.Duration
	Final, Failing int
	Watched        time.Duration
}

// hint is what the job was told that came again after [shown.Hint].
const hint = 2 * time.Second

// Came says when that job came.
func (s shown) Came() string {
	switch {
	case s.Hint == 0:
		return "never"
	case s.Hint < hint:
		return fmt.Sprintf("%.1f s early", (hint - s.Hint).Seconds())
	default:
		return fmt.Sprintf("%.1f s late", (s.Hint - hint).Seconds())
	}
}

// most is where compare ends a job.
const most = 1000

// Attempts says how often a job was run.
func (shown) Attempts(n int) string {
	if n >= most {
		return fmt.Sprintf("%d and more", most)
	}
	return strconv.Itoa(n)
}

// adapters are the folders of the adapters of engines.
var adapters = map[string]string{
	"River": "retryriver", "asynq": "retryasynq", "JetStream": "retryjetstream", "RabbitMQ": "retryamqp",
	"Redis Streams": "retrystreams", "SQS": "retrysqs", "Watermill on NATS": "retrywatermill", "Pub/Sub": "retrypubsub",
	"Kubernetes": "retrykube", "Kafka": "retrykafka", "Temporal": "retrytemporal",
}

// compared reads compare.json, and counts the lines of set-up.
func compared() (rows []row, err error) {
	if err := json.Unmarshal(measured, &rows); err != nil {
		return nil, fmt.Errorf("compare.json: %w", err)
	}
	for i := range rows {
		rows[i].Adapter = adapters[rows[i].Engine]
		if rows[i].Lines, err = setUp(filepath.Join("..", "..", "adapters", rows[i].Adapter, "doc.go")); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// setUp counts the lines of the code with which a package comment begins, but for those
// of an error's handling.
func setUp(path string) (lines int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	before, _, _ := strings.Cut(string(text), "\n// #")
	handling := false
	for line := range strings.Lines(before) {
		code, ok := strings.CutPrefix(line, "//\t")
		code = strings.TrimSpace(code)
		switch {
		case !ok || code == "":
		case handling:
			handling = code != "}"
		case strings.HasPrefix(code, "if err != nil"):
			handling = true
		default:
			if strings.HasPrefix(code, "if err :=") {
				handling = true
			}
			lines++
		}
	}
	return lines, nil
}

var (
	current  = regexp.MustCompile(`^=== \w+ +(\S+)`)
	lateness = regexp.MustCompile(`_test\.go:\d+: .* late by (\S+) at most`)
	declared = regexp.MustCompile(`(differs, as declared|left out) \(([^)]*)\)`)
	verdict  = regexp.MustCompile(`--- (\w+): (\S+?)(/scripts)?/([^/]+) \(`)
)

// read reads what one test printed.
func read(engine, test string, in io.Reader) (column, error) {
	c := column{Engine: engine, Results: map[string]string{}}
	names := map[string]string{} // of scripts, by what go test makes of them
	for _, script := range enginetest.Scripts() {
		names[strings.ReplaceAll(script, " ", "_")] = script
	}
	reasons, now := map[string]string{}, ""
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := current.FindStringSubmatch(line); m != nil {
			now = m[1]
		}
		if m := declared.FindStringSubmatch(line); m != nil {
			reasons[now] = m[2]
			if m[1] == "left out" {
				reasons[now] = "left out: " + m[2]
			}
		}
		if m := lateness.FindStringSubmatch(line); m != nil && now == test {
			late, err := time.ParseDuration(m[1])
			if err != nil {
				return c, err
			}
			c.Late = max(c.Late, late)
		}
		if m := verdict.FindStringSubmatch(line); m != nil && m[2] == test && names[m[4]] != "" {
			result := reasons[test+m[3]+"/"+m[4]]
			if m[1] != "PASS" {
				result = m[1]
			}
			c.Results[names[m[4]]] = result
		}
	}
	if len(c.Results) != len(names) {
		return c, fmt.Errorf("%s has %d scripts, not %d", test, len(c.Results), len(names))
	}
	return c, lines.Err()
}
