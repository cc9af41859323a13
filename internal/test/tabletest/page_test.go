//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytable/tablepage"
)

// pageOf is a page about the table, on which everything is allowed.
func pageOf(s *store, table *retrytable.Table[int64]) *tablepage.Page {
	w := &retrytable.Worker[int64]{Table: table, DB: s.db, Policy: &retry.Policy{Name: "p", Quota: new(retryquota.Quota)}}
	return &tablepage.Page{
		Tables: []tablepage.Table{tablepage.Of(w)},
		Allow:  func(*http.Request, tablepage.Action) bool { return true },
	}
}

// ask asks a page with some headers, each with its value.
func ask(t testing.TB, page http.Handler, method, query string, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://example.com/any/prefix"+query, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	answer := w.Result()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

// A person sees the jobs, and changes them.
func TestPage(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := mended()
		s.create(t, table, 3)
		die(t, s, table, errRefused, errRefused, retry.MarkFinal(errors.New("Authorization: Bearer c2VjcmV0LXRva2Vu")))
		page := pageOf(s, table)
		answer, body := ask(t, page, "GET", "", nil)
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		assert.Contains(t, body, "<b>3</b> dead")
		assert.Contains(t, body, "dial tcp *: connection refused")
		assert.Contains(t, body, "3 attempts, 2s ×2")
		assert.Contains(t, body, "Quota: start")
		assert.NotContains(t, body, "c2VjcmV0")
		answer, body = ask(t, page, "GET", "?table=jobs&status=dead&category=net_refused", nil)
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		assert.Contains(t, body, "?table=jobs&amp;id=2")
		assert.NotContains(t, body, "?table=jobs&amp;id=3")
		_, body = ask(t, page, "GET", "?table=jobs&status=dead&category=net_refused&do=try+again", nil)
		assert.Contains(t, body, "try again: 2 jobs")
		form := url.Values{"table": {"jobs"}, "status": {"dead"}, "category": {"net_refused"}, "do": {"try again"}, "within": {"1h"}}
		answer, _ = ask(t, page, "POST", "?", form, "Sec-Fetch-Site", "same-origin")
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
		assert.Equal(t, "?category=net_refused&changed=2&status=dead&table=jobs", answer.Header.Get("Location"))
		assert.Equal(t, "waiting", s.record(t, s.db, 1).status)
		answer, _ = ask(t, page, "POST", "?", form)
		assert.Contains(t, answer.Header.Get("Location"), "changed=0", "the other person has pressed it")
		form = url.Values{"table": {"jobs"}, "id": {"1"}, "do": {"end"}, "reason": {"<b>no</b>"}}
		answer, _ = ask(t, page, "POST", "?", form)
		assert.Equal(t, "?changed=1&id=1&table=jobs", answer.Header.Get("Location"))
		_, body = ask(t, page, "GET", "?table=jobs&id=1&changed=1", nil)
		assert.Contains(t, body, "1 job changed.")
		assert.Contains(t, body, "&lt;b&gt;no&lt;/b&gt;")
	})
}

// Nothing is changed by those who may not.
func TestPageRefuses(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.SQLite), func(t *testing.T, s *store) {
		table := mended()
		s.create(t, table, 1)
		page := pageOf(s, table)
		end := url.Values{"table": {"jobs"}, "id": {"1"}, "do": {"end"}}
		tests := []struct {
			name, method string
			form         url.Values
			headers      []string
			want         int
		}{
			{"another origin", "POST", end, []string{"Origin", "http://evil.example"}, http.StatusForbidden},
			{"another site", "POST", end, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			{"another method", "DELETE", end, nil, http.StatusMethodNotAllowed},
			{"no table", "POST", url.Values{"table": {"users"}, "id": {"1"}, "do": {"end"}}, nil, http.StatusNotFound},
			{"an ID of another type", "POST", url.Values{"table": {"jobs"}, "id": {"1 OR 1=1"}, "do": {"end"}}, nil, http.StatusBadRequest},
			{"no operation", "POST", url.Values{"table": {"jobs"}, "id": {"1"}, "do": {"drop"}}, nil, http.StatusBadRequest},
			{"every job", "POST", url.Values{"table": {"jobs"}, "do": {"end"}}, nil, http.StatusBadRequest},
			{"no status", "POST", url.Values{"table": {"jobs"}, "id": {"1"}, "do": {"end"}, "status": {"x"}}, nil, http.StatusBadRequest},
			{"no time", "POST", url.Values{"table": {"jobs"}, "id": {"1"}, "do": {"put off"}, "within": {"-1h"}}, nil, http.StatusBadRequest},
			{"too much", "POST", url.Values{"table": {strings.Repeat("x", 1<<20)}}, nil, http.StatusBadRequest},
		}
		for _, test := range tests {
			answer, _ := ask(t, page, test.method, "?", test.form, test.headers...)
			assert.Equal(t, test.want, answer.StatusCode, test.name)
			assert.Equal(t, "ready", s.record(t, s.db, 1).status, test.name)
		}
		for name, allow := range map[string]func(*http.Request, tablepage.Action) bool{
			"read only": nil,
			"not this":  func(_ *http.Request, a tablepage.Action) bool { return a.Do != "end" || a.Table != "jobs" },
		} {
			page := pageOf(s, table)
			page.Allow = allow
			answer, _ := ask(t, page, "POST", "?", end)
			assert.Equal(t, http.StatusForbidden, answer.StatusCode, name)
			assert.Equal(t, "ready", s.record(t, s.db, 1).status, name)
			_, body := ask(t, page, "GET", "?table=jobs&id=1", nil)
			assert.NotContains(t, body, "do=end", name)
		}
		answer, body := ask(t, page, "GET", "?table=jobs&id=seven", nil)
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
		assert.Contains(t, body, "is no ID of this table")
		answer, _ = ask(t, page, "GET", "?table=jobs&id=77", nil)
		assert.Equal(t, http.StatusNotFound, answer.StatusCode)
	})
}

// What a stranger has put into a job is text, in one line or in lines of its own, and not long.
func TestPageOfHostileJob(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := mended()
		s.create(t, table, 1)
		hostile := "</td><script>alert(1)</script>\x1b[31m\u202egnp.exe\u2066 ' onmouseover=alert(1) {{.}} password=hunter2\r\nSet-Cookie: a=b "
		if s.dialect == retrytable.MySQL { // whatever the database has
			run(t, s.db, "ALTER TABLE jobs MODIFY note mediumtext CHARACTER SET utf8mb4")
		}
		run(t, s.db, "UPDATE jobs SET status = 'dead', due_at = NULL, sort = $1, category = $1, note = $2, error = $3",
			hostile, hostile+strings.Repeat("x", 60_000), hostile+strings.Repeat("<i>", 20_000))
		page := pageOf(s, table)
		if s.dialect == retrytable.SQLite { // whatever the database takes
			run(t, s.db, "UPDATE jobs SET error = $1, note = $1", hostile+strings.Repeat("x\xff\x00", 1<<19))
		}
		for _, query := range []string{
			"", "?table=jobs", "?table=jobs&id=1", "?table=jobs&status=dead&do=try+again",
			"?table=jobs&error=" + url.QueryEscape(hostile) + "&kind=" + url.QueryEscape(hostile),
			"?table=" + url.QueryEscape(hostile), "?table=jobs&id=" + url.QueryEscape(hostile), "?table=jobs&do=" + url.QueryEscape(hostile),
		} {
			answer, body := ask(t, page, "GET", query, nil)
			assert.NotContains(t, body, "<script>alert", query)
			assert.NotContains(t, body, "<i>", query)
			assert.Less(t, len(body), 100_000, query)
			assert.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
			if !strings.Contains(query, url.QueryEscape(hostile)) { // which the fields have
				for _, bad := range []string{"\u202e", "\x1b", "hunter2"} {
					assert.NotContains(t, body, bad, query)
				}
			}
		}
	})
}

// The page says that the database is away, and since when.
func TestPageInOutage(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.SQLite), func(t *testing.T, s *store) {
		table := mended()
		page := pageOf(s, table)
		table.Dialect, table.Instants = s.dialect, s.instants
		answer, body := ask(t, page, "GET", "", nil)
		assert.Equal(t, http.StatusInternalServerError, answer.StatusCode)
		assert.Contains(t, body, "there is no such table")
		away := openDB(t, "pgx", "postgres://127.0.0.1:1/none")
		page = pageOf(&store{db: away}, &retrytable.Table[int64]{Name: "jobs"})
		answer, body = ask(t, page, "GET", "", nil)
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		assert.Equal(t, "5", answer.Header.Get("Retry-After"))
		_, since, found := strings.Cut(body, "since ")
		require.True(t, found)
		at, err := time.Parse("2006-01-02 15:04:05 MST", since[:23])
		require.NoError(t, err)
		near(t, at, 0)
		answer, again := ask(t, page, "GET", "?table=jobs", nil)
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		assert.Contains(t, again, "since "+since[:23])
	})
}

// A group of failures with several lines can be tried again: a browser sends other ends of lines
// than it was given.
func TestPageOfManyLines(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := mended()
		s.create(t, table, 1)
		die(t, s, table, retry.MarkFinal(errors.Join(errors.New("no user"), errors.New("no mail"))))
		page := pageOf(s, table)
		form := url.Values{"table": {"jobs"}, "status": {"dead"}, "error": {"no user\r\nno mail"}, "do": {"try again"}}
		answer, _ := ask(t, page, "POST", "?", form, "Sec-Fetch-Site", "same-origin")
		assert.Contains(t, answer.Header.Get("Location"), "changed=1")
		assert.Equal(t, "waiting", s.record(t, s.db, 1).status)
	})
}

// A reader who has gone away says nothing about the database.
func TestPageThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		page := pageOf(s.store, s.Table)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, "http://example.com/", nil))
		time.Sleep(time.Hour)
		s.database.down.Store(true)
		answer, body := ask(t, page, "GET", "", nil)
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		assert.Contains(t, body, "since "+time.Now().UTC().Format("2006-01-02 15:"))
	})
}
