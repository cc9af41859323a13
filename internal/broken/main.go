// Command broken proves that the tests in the peers files can fail. It builds
// their package once for every entry of list.txt, with the mistake that the entry
// describes put into a copy of one file, and runs the test that protects against
// it. The sources themselves are not touched: go test -overlay takes the copy.
//
// Run it in the root of the module:
//
//	go run ./internal/broken [-run regexp] [-v]
//
// It reports the entries whose test did not fail, and those that prove nothing:
// the old text is not found exactly once, the broken file does not compile, or
// the test fails without the mistake as well.
//
// An entry of list.txt has the form
//
//	=== Tnn file.go: what is broken
//	old text, one or more lines
//	---
//	new text, none or more lines
//
// where Tnn is the first part of the name of the test, or package/Bnn if that is
// not in the root package. Indentation counts. Lines in front of the first entry
// are a comment.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	list = "internal/broken/list.txt"

	// A mistake may make a test hang, which counts as failing.
	timeout = 60 * time.Second

	// A mistake that shows only when two goroutines meet may need another try.
	tries = 3

	parallel = 2
)

// entry is one deliberate mistake.
type entry struct {
	pkg      string // "./retryhttp"
	test     string // "T06"
	file     string
	what     string
	old, new string
}

func (e entry) String() string { return e.id() + " " + e.file + ": " + e.what }

// id is how list.txt names the test.
func (e entry) id() string { return strings.TrimPrefix(e.pkg, "./") + e.test }

// pattern matches the name of the entry's test.
func (e entry) pattern() string { return "^Test" + e.test + "_" }

func main() {
	match := flag.String("run", "", "only entries whose first line matches this `regexp`")
	verbose := flag.Bool("v", false, "show what the tests print")
	flag.Parse()
	ok, err := prove(os.Stdout, *match, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// prove runs all entries that match, and reports whether all were caught.
func prove(w io.Writer, match string, verbose bool) (bool, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only, err := regexp.Compile(match)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return false, fmt.Errorf("%w (run this in the root of the module)", err)
	}
	entries, err := parse(string(text), only)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "broken")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	sound, err := failing(ctx, entries)
	if err != nil {
		return false, err
	}

	results := make([]result, len(entries))
	var wg sync.WaitGroup
	turn := make(chan struct{}, parallel)
	for i, e := range entries {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			results[i] = try(ctx, filepath.Join(dir, strconv.Itoa(i)), e, sound)
		})
	}
	wg.Wait()

	caught := 0
	for i, r := range results {
		if r.problem == "" {
			caught++
		} else {
			fmt.Fprintf(w, "%s: %v\n", r.problem, entries[i])
		}
		if verbose || r.problem == notCompiled {
			fmt.Fprintf(w, "%s\n", r.output)
		}
	}
	fmt.Fprintf(w, "%d broken builds, %d caught\n", len(entries), caught)
	return caught == len(entries), ctx.Err()
}

// parse reads the entries whose first line matches only.
func parse(text string, only *regexp.Regexp) (entries []entry, err error) {
	_, text, found := strings.Cut("\n"+text, "\n=== ")
	if !found {
		return nil, errors.New(list + ": no entries")
	}
	for part := range strings.SplitSeq(text, "\n=== ") {
		head, body, _ := strings.Cut(part, "\n")
		var e entry
		name, what, ok := strings.Cut(head, ": ")
		e.what = what
		if _, err := fmt.Sscan(name, &e.test, &e.file); err != nil || !ok {
			return nil, fmt.Errorf("%s: %q: want \"Tnn file.go: what is broken\"", list, head)
		}
		pkg, test := path.Split(e.test)
		e.pkg, e.test = "./"+pkg, test
		e.old, e.new, ok = strings.Cut(strings.TrimRight(body, "\n")+"\n", "\n---\n")
		if !ok || e.old == "" {
			return nil, fmt.Errorf("%s: %q: want old text, a line of ---, new text", list, head)
		}
		e.new = strings.TrimSuffix(e.new, "\n")
		if only.MatchString(head) {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: no entry matches %q", list, only)
	}
	return entries, nil
}

// The ways in which an entry proves nothing.
const (
	notCaught   = "not caught"
	notFound    = "old text not found exactly once"
	notCompiled = "does not compile"
	notSound    = "fails without the mistake too"
	notThere    = "no such test"
	notRun      = "could not be run"
)

type result struct {
	problem string // empty if the mistake was caught
	output  []byte
}

// tests says of the tests of every package as it is whether they pass.
type tests map[string]map[string]bool

func (t tests) problem(e entry) string {
	pattern := regexp.MustCompile(e.pattern())
	for name, passes := range t[e.pkg] {
		switch {
		case !pattern.MatchString(name):
		case passes:
			return ""
		default:
			return notSound
		}
	}
	return notThere
}

var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\w+)`)

// failing runs the tests of all entries on the sources as they are. A failure
// proves something about a mistake only if there is none without it.
func failing(ctx context.Context, entries []entry) (tests, error) {
	patterns := map[string][]string{}
	for _, e := range entries {
		patterns[e.pkg] = append(patterns[e.pkg], e.pattern())
	}
	all := tests{}
	for pkg, patterns := range patterns {
		output, _ := goTest(ctx, pkg, "-v", "-run", strings.Join(patterns, "|"))
		found := map[string]bool{}
		for _, m := range verdict.FindAllSubmatch(output, -1) {
			found[string(m[2])] = string(m[1]) == "PASS"
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no tests to run:\n%s", output)
		}
		all[pkg] = found
	}
	return all, nil
}

// try puts one mistake into a copy of its file and runs the test.
func try(ctx context.Context, dir string, e entry, sound tests) result {
	if problem := sound.problem(e); problem != "" {
		return result{problem: problem}
	}
	file, err := filepath.Abs(e.file)
	if err != nil {
		return result{notRun, []byte(err.Error())}
	}
	src, err := os.ReadFile(file)
	if err != nil || strings.Count(string(src), e.old) != 1 {
		return result{problem: notFound}
	}
	overlay, err := writeOverlay(dir, file, strings.Replace(string(src), e.old, e.new, 1))
	if err != nil {
		return result{notRun, []byte(err.Error())}
	}
	var output []byte
	for range tries {
		if output, err = goTest(ctx, e.pkg, "-overlay", overlay, "-run", e.pattern()); err != nil {
			break
		}
	}
	switch {
	case bytes.Contains(output, []byte("[build failed]")), bytes.Contains(output, []byte("[setup failed]")):
		return result{notCompiled, output}
	case err == nil:
		return result{notCaught, output}
	case !bytes.Contains(output, []byte("\nFAIL")):
		return result{notRun, output}
	default:
		return result{output: output}
	}
}

// writeOverlay writes the file that go test is to take instead of the one at
// file, and the overlay that tells it so.
func writeOverlay(dir, file, src string) (overlay string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	broken := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(broken, []byte(src), 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{file: broken}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

func goTest(ctx context.Context, pkg string, args ...string) ([]byte, error) {
	// vet would find some of the mistakes before the test does.
	args = append([]string{"test", "-count=1", "-vet=off", "-timeout", timeout.String()}, append(args, pkg)...)
	return exec.CommandContext(ctx, "go", args...).CombinedOutput()
}
