package retrytable_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// panics is an error whose text nobody gets.
type panics struct{}

func (panics) Error() string { panic("no text") }

// stored returns what is stored of a failure.
func stored(t *testing.T, d retry.Decision, failure error) any {
	t.Helper()
	var db recorder
	table := &retrytable.Table[int64]{Name: "jobs", Columns: retrytable.Columns{Error: "error"}}
	require.ErrorIs(t, table.FailWith(t.Context(), &db, lease, d, failure), errDB)
	assert.Contains(t, db.sql, `"error" = $`)
	return db.args[len(db.args)-3] // before the ID and the fence
}

// The text of a failure is stored without what is secret, or what no database takes.
func TestErrorText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<20) + ": refused"
	for name, test := range map[string]struct {
		failure error
		want    any
	}{
		"unknown":  {nil, nil},
		"empty":    {errors.New(""), ""},
		"plain":    {errors.New("mailbox busy"), "mailbox busy"},
		"lines":    {errors.Join(errors.New("a\tb"), errors.New("c")), "a\tb\nc"},
		"secrets":  {errors.New(`Get "https://u:s3cret@h/x?token=s3cret": EOF`), `Get "https://h/x?token=***": EOF`},
		"controls": {errors.New("a\x00b\x1b[31mc\r\n\u009bd\x7f"), "ab[31mc\nd"},
		"hidden":   {errors.New("http://u:s3c\x00ret@h/"), "http://h/"},
		"bytes":    {errors.New("a\xff\xc3é"), "a\uFFFD\uFFFDé"},
		"panics":   {panics{}, `%!v(PANIC=Error method: no text)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, stored(t, again, test.failure))
		})
	}
	for _, failure := range []string{long[1:], strings.Repeat("a ", 1<<20), strings.Repeat("x", 3000) + long[:2000]} {
		text, ok := stored(t, again, errors.New(failure)).(string)
		require.True(t, ok)
		assert.LessOrEqual(t, len(text), 2048)
		assert.True(t, utf8.ValidString(text))
	}
	middle, _ := stored(t, again, errors.New(strings.Repeat("x", 2049)+": the cause")).(string)
	assert.Regexp(t, `^x+\n\[\.\.\.\]\nx+: the cause$`, middle)
	secret := errors.New(strings.Repeat("y", 16300) + " https://user:" + strings.Repeat("s3cret", 99) + "@h/")
	assert.NotContains(t, stored(t, again, secret), "s3cret", "cut in two")
}

// A job that ends says why: by its last failure, unless that was not the reason.
func TestErrorTextOfEnds(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Name: "mail", MaxAttempts: 3}
	inside := func(err error) error { return &retry.Error{Attempts: 2, Stop: retry.StopAttempts, Err: err} }
	for _, test := range []struct {
		before  int
		failure error
		want    string
	}{
		{2, errDB, "no database"},
		{0, retry.MarkFinal(errDB), "no database"},
		{2, inside(errDB), "failed after 2 attempts: no database"},
		{0, inside(retry.MarkFinal(errDB)), "failed after 2 attempts: no database"},
		{0, retry.MarkRateLimited(errDB, 1e15), "mail failed after 1 attempt (server asks to wait 277h46m40s): no database"},
	} {
		row := retrytable.Row[int64]{State: retry.State{Failures: test.before}}
		d := p.Next(row.State, test.failure, row.Now())
		require.False(t, d.Retry)
		assert.Equal(t, test.want, stored(t, d, nil), "Fail knows it too")
	}
	d, exhausted := p.Exhausted(retry.State{Failures: 3}, retrytable.Row[int64]{}.Claimed)
	require.True(t, exhausted)
	assert.Equal(t, "mail failed after 3 attempts", stored(t, d, nil))
}

// Failures are alike if their texts differ in nothing but what a job has for itself.
func TestPattern(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"dial tcp 10.1.2.3:5432: connection refused":                "dial tcp *: connection refused",
		"read tcp 10.1.2.3:51234->10.9.8.7:443: reset":              "read tcp *: reset",
		"status 503 Service Unavailable":                            "status 503 Service Unavailable",
		"ERROR: deadlock detected (SQLSTATE 40P01)":                 "ERROR: deadlock detected (SQLSTATE 40P01)",
		"Error 1213 (40001): Deadlock":                              "Error 1213 (*): Deadlock",
		"user 123e4567-e89b-12d3-a456-426614174000 is gone":         "user * is gone",
		"no order 10047 of customer 7":                              "no order * of customer 7",
		"request req_8fa93b failed":                                 "request * failed",
		"token=*** is refused":                                      "token=*** is refused",
		strings.Repeat("a very long text ", 18) + "cut in the midd": strings.TrimSpace(strings.Repeat("a very long text ", 17)) + " a very long text cut in the*",
	} {
		assert.Equal(t, want, retrytable.Pattern(text))
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "ready", retrytable.Ready.String())
	assert.Equal(t, "waiting|dead", (retrytable.Waiting | retrytable.Dead).String())
}
