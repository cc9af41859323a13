package why

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// tables has the tables of docs/why.md by their names.
var tables = map[string]func() string{
	"stops":     stopTable,
	"statuses":  statusTable,
	"errors":    errorTable,
	"exits":     exitTable,
	"sqlstates": stateTable,
}

func table(head ...string) *strings.Builder {
	b := &strings.Builder{}
	row(b, head...)
	row(b, slices.Repeat([]string{"---"}, len(head))...)
	return b
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func stopTable() string {
	b := table("Text", "`Stop`", "It means", "To change it")
	for _, s := range stops {
		texts := s.texts()
		for i, text := range texts {
			texts[i] = "“" + text + "”"
		}
		text := strings.Join(texts, "<br>")
		if s.reason == retry.StopAttempts {
			text = "“failed after 3 attempts” and no more<br>" + text
		}
		row(b, text, "`"+s.reason.Error()+"`", s.means, s.change)
	}
	return b.String()
}

// reaction is what happens after a status.
type reaction struct {
	class     retry.Class
	get, post string
}

func react(status int, header http.Header) reaction {
	v := retryhttp.ClassifyResponse(&http.Response{StatusCode: status, Header: header}, time.Now())
	r := reaction{v.Class, "no", "no"}
	if v.Class != retry.Final {
		r.get = "yes"
	}
	if v.NotApplied {
		r.post = "yes"
	}
	return r
}

func statusTable() string {
	type both struct{ plain, hinted reaction }
	groups := map[both][]string{}
	var order []both
	for status := 400; status < 600; status++ {
		k := both{react(status, nil), react(status, http.Header{"Retry-After": {"1"}})}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], strconv.Itoa(status))
	}
	slices.SortStableFunc(order, func(a, b both) int { return len(groups[a]) - len(groups[b]) })
	b := table("Status", "Class", "GET again", "POST again", "With a `Retry-After`", "To change it")
	for _, k := range order {
		statuses := strings.Join(groups[k], ", ")
		if len(groups[k]) > 100 {
			statuses = "all others, such as 400, 401, 404, 409, 422, 501"
		}
		hinted := "the same"
		if k.hinted != k.plain {
			hinted = fmt.Sprintf("%s; GET %s, POST %s", k.hinted.class, k.hinted.get, k.hinted.post)
		}
		change := fmt.Sprintf("`Overrides: map[string]retry.Override{\"http_%s\": {MaxAttempts: 1}}`", groups[k][0])
		if k.plain.class == retry.Final {
			change = "`ClassifyResponse`, [as here](#retry-a-final-status)"
		}
		row(b, statuses, k.plain.class.String(), k.plain.get, k.plain.post, hinted, change)
	}
	return b.String()
}

func errorTable() string {
	b := table("Error", "Class", "Category", "Elsewhere")
	for _, n := range known {
		v := retry.Classify(n.err)
		var elsewhere []string
		for _, p := range protocols(n.err) {
			if p.verdict.Class != v.Class {
				elsewhere = append(elsewhere, p.name+": "+p.verdict.Class.String())
			}
		}
		category := ""
		if v.Category != "" {
			category = "`" + v.Category + "`"
		}
		row(b, strings.TrimPrefix(strings.TrimSuffix(n.names[0], "*"), "*"), v.Class.String(), category, strings.Join(elsewhere, ", "))
	}
	return b.String()
}

func exitTable() string {
	classes := map[retry.Class][]string{}
	var order []retry.Class
	for code := 1; code < 160; code++ {
		class := retryexec.ClassifyExit(nil, code, "").Class
		if classes[class] == nil {
			order = append(order, class)
		}
		classes[class] = append(classes[class], strconv.Itoa(code))
	}
	slices.Sort(order)
	b := table("Exit code, nothing on standard error", "Class", "To change it")
	for _, class := range order {
		codes := strings.Join(classes[class], ", ")
		if class == retry.Unknown {
			codes = "all others, such as 1"
		}
		change := "`retry --final-exit CODE`"
		if class == retry.Final {
			change = "`retry --on-exit CODE`"
		}
		row(b, codes, class.String(), change)
	}
	return b.String()
}

func stateTable() string {
	b := table("SQLSTATE", "PostgreSQL's name", "Class", "`InTx` repeats it")
	for _, s := range states {
		v := retrysql.Classify(sqlStateError(s.code))
		again := "no"
		if v.Class != retry.Final && v.Class != retry.Unknown {
			again = "yes"
		}
		row(b, s.code, s.name, v.Class.String(), again)
	}
	return b.String()
}
