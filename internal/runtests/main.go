// Command runtests runs the tests of several modules and shows their progress: a line
// for every package as it ends, a line at least every 15 seconds, and the output of
// failed tests. Its last line says what passed, what was left out, and why.
//
//	go run ./internal/runtests [-flags "-race"] [-modules 3] module ...
//
// It ends with status 1 if a test failed or did not compile.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// quiet is the longest time without output.
const quiet = 15 * time.Second

// event is a line of go test -json: see go doc test2json. Besides, there is one where the
// tests of a module begin, and one where they end.
type event struct {
	Action     string
	Package    string
	ImportPath string // of the package that was built
	Test       string
	Elapsed    float64
	Output     string

	module string
	err    error
}

// The actions of the events that are not of go test.
const (
	moduleBegins = "module begins"
	moduleEnds   = "module ends"
)

// totals has the counts of all modules.
type totals struct {
	modules, packages, tests int
	skipped                  map[string]int // by reason
	failed                   []string       // packages
}

func main() {
	flags := flag.String("flags", "", "flags for go test, separated by spaces")
	atOnce := flag.Int("modules", 1, "how many modules are tested at the same time")
	flag.Parse()
	start := time.Now()
	events := make(chan event)
	go func() {
		defer close(events)
		test(flag.Args(), strings.Fields(*flags), *atOnce, events)
	}()
	all := totals{skipped: map[string]int{}}
	all.follow(os.Stdout, events)
	fmt.Println(all.String(time.Since(start).Round(time.Second)))
	if len(all.failed) > 0 {
		os.Exit(1)
	}
}

// test runs the tests of modules, and tells events.
func test(modules, flags []string, atOnce int, events chan<- event) {
	var running sync.WaitGroup
	places := make(chan struct{}, max(atOnce, 1))
	for _, module := range modules {
		places <- struct{}{}
		running.Go(func() {
			events <- event{Action: moduleBegins, module: module}
			err := testModule(module, flags, events)
			events <- event{Action: moduleEnds, module: module, err: err}
			<-places
		})
	}
	running.Wait()
}

// testModule runs the tests of one module. Its error is that of go test itself.
func testModule(module string, flags []string, events chan<- event) error {
	args := append([]string{"test", "-json"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...) //nolint:gosec,noctx // the arguments are the caller's
	cmd.Dir, cmd.Stderr = module, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed := false
	lines := bufio.NewReader(stdout)
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); len(line) == 0 {
			continue
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			e = event{Action: "output", Output: string(line)} // of go itself
		}
		failed = failed || e.failed()
		events <- e
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && failed {
		return nil // reported already
	}
	return err
}

// failed reports whether e is the end of a package that failed.
func (e *event) failed() bool {
	return e.Test == "" && (e.Action == "fail" || e.Action == "build-fail")
}

// follow prints the progress of the tests.
func (t *totals) follow(out io.Writer, events <-chan event) {
	said := map[string][]string{} // the output of packages and tests in progress
	var running []string
	start := time.Now()
	alive := time.NewTimer(quiet)
	defer alive.Stop()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			switch {
			case e.Action == moduleBegins:
				t.modules++
				running = append(running, e.module)
				fmt.Fprintf(out, "== %s\n", e.module)
			case e.Action == moduleEnds:
				running = slices.DeleteFunc(running, func(m string) bool { return m == e.module })
				if e.err == nil {
					continue
				}
				fmt.Fprintf(out, "FAIL %s: %v\n", e.module, e.err)
				t.failed = append(t.failed, e.module)
			case !t.hear(out, e, said):
				continue
			}
			alive.Reset(quiet)
		case <-alive.C:
			fmt.Fprintf(out, "…    %s: compiling or running, %v so far\n",
				strings.Join(running, ", "), time.Since(start).Round(time.Second))
			alive.Reset(quiet)
		}
	}
}

// hear handles one event. It reports whether it printed something.
func (t *totals) hear(out io.Writer, e event, said map[string][]string) (printed bool) {
	name := strings.TrimSpace(cmp.Or(e.Package, e.ImportPath) + " " + e.Test)
	switch {
	case strings.HasSuffix(e.Action, "output"):
		said[name] = append(said[name], e.Output)
		return false
	case e.Action == "pass" && e.Test != "":
		t.tests++
	case e.Action == "skip" && e.Test != "":
		t.skipped[reason(said[name])]++
	case e.Action == "pass":
		t.packages++
		printed = true
		fmt.Fprintf(out, "ok   %s %.1fs\n", name, e.Elapsed)
	case e.Action == "fail", e.Action == "build-fail":
		printed = true
		fmt.Fprint(out, strings.Join(said[name], ""))
		if e.failed() {
			t.unfinished(out, name, said)
			fmt.Fprintf(out, "FAIL %s\n", name)
			t.failed = append(t.failed, name)
		}
	case e.Action != "skip": // a package without tests is skipped
		return false
	}
	delete(said, name)
	return printed
}

// unfinished prints the output of the unfinished tests of a package. Their process
// ended by a panic, a timeout or a signal.
func (t *totals) unfinished(out io.Writer, name string, said map[string][]string) {
	for _, test := range slices.Sorted(maps.Keys(said)) {
		if strings.HasPrefix(test, name+" ") {
			fmt.Fprint(out, strings.Join(said[test], ""))
			delete(said, test)
		}
	}
}

// reason returns why a test was skipped: the last line that it printed, without its place.
func reason(said []string) string {
	for _, line := range slices.Backward(said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if place, why, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = why
		}
		return line
	}
	return "no reason given"
}

// String returns the last line.
func (t *totals) String(took time.Duration) string {
	text := fmt.Sprintf("test: %d tests in %d packages of %d modules passed in %v", t.tests, t.packages, t.modules, took)
	if len(t.failed) > 0 {
		text = fmt.Sprintf("test: FAILED: %s; %d tests passed in %v", strings.Join(t.failed, ", "), t.tests, took)
	}
	left, reasons := 0, []string{}
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		left += t.skipped[why]
		reasons = append(reasons, fmt.Sprintf("%s (%d)", why, t.skipped[why]))
	}
	if left == 0 {
		return text + "; nothing was left out"
	}
	return fmt.Sprintf("%s; %d left out: %s", text, left, strings.Join(reasons, ", "))
}
