package why

import (
	"fmt"
	"maps"
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
	"stops":      stopTable,
	"statuses":   statusTable,
	"errors":     errorTable,
	"codes":      codeTable,
	"exits":      exitTable,
	"sqlstates":  stateTable,
	"texts":      textTable,
	"categories": categoryTable,
	"words":      wordTable,
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
		row(b, text, "`"+s.constant()+"`<br>`"+s.reason.Error()+"`", s.means, "`"+strings.Join(s.change, "`<br>`")+"`")
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
	b := table("Status", "Class", "GET again", "POST again", "With a `Retry-After`")
	for _, k := range order {
		statuses := strings.Join(groups[k], ", ")
		if len(groups[k]) > 100 {
			statuses = "all others, such as 400, 401, 404, 409, 422, 501"
		}
		hinted := "the same"
		if k.hinted != k.plain {
			hinted = fmt.Sprintf("%s; GET %s, POST %s", k.hinted.class, k.hinted.get, k.hinted.post)
		}
		row(b, statuses, k.plain.class.String(), k.plain.get, k.plain.post, hinted)
	}
	return b.String()
}

// errorTable has the errors with the same verdicts in one row.
func errorTable() string {
	type verdicts struct{ class, category, elsewhere string }
	names := map[verdicts][]string{}
	var order []verdicts
	for _, n := range known {
		if strings.HasPrefix(n.names[0], codePrefix) {
			continue // is in the table of codes
		}
		v := retry.Classify(n.err)
		var elsewhere []string
		for _, p := range protocols(n.err) {
			if p.verdict.Class != v.Class {
				elsewhere = append(elsewhere, p.name+": "+p.verdict.Class.String())
			}
		}
		if job := new(retry.Policy).Next(retry.State{}, n.err, time.Time{}).Verdict; job.Class != v.Class {
			elsewhere = append(elsewhere, "a job: as what was given up")
		}
		k := verdicts{class: v.Class.String(), elsewhere: strings.Join(elsewhere, ", ")}
		if v.Category != "" {
			k.category = "`" + v.Category + "`"
		}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], n.names[0])
	}
	b := table("Error", "Class", "Category", "Elsewhere")
	for _, k := range order {
		row(b, strings.Join(names[k], "<br>"), k.class, k.category, k.elsewhere)
	}
	return b.String()
}

// codePrefix begins the names of the codes of gRPC.
const codePrefix = "gRPC "

// codeTable has the codes of gRPC, the smallest group first.
func codeTable() string {
	groups := map[[2]retry.Class][]string{}
	var order [][2]retry.Class
	for _, n := range known {
		code, isCode := strings.CutPrefix(n.names[0], codePrefix)
		if !isCode {
			continue
		}
		v := retry.Classify(n.err)
		k := [2]retry.Class{v.Class, classInCall(v)}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], code)
	}
	slices.SortStableFunc(order, func(a, b [2]retry.Class) int { return len(groups[a]) - len(groups[b]) })
	b := table("Code", "`retry.Classify`", "Interceptors")
	for _, k := range order {
		row(b, strings.Join(groups[k], ", "), k[0].String(), k[1].String())
	}
	return b.String()
}

// classInCall returns the class of a code to the interceptors of gRPC and Connect. A test of
// retrygrpc compares the page with its interceptor.
func classInCall(v retry.Verdict) retry.Class {
	if v.Class == retry.Unknown || v.Category == "grpc_aborted" {
		return retry.Final
	}
	return v.Class
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
	b := table("Exit code, nothing on standard error", "Class")
	for _, class := range order {
		codes := strings.Join(classes[class], ", ")
		if class == retry.Unknown {
			codes = "all others, such as 1"
		}
		row(b, codes, class.String())
	}
	return b.String()
}

func stateTable() string {
	names := map[retry.Class][]string{}
	for _, s := range states {
		class := retrysql.Classify(sqlStateError(s.code)).Class
		names[class] = append(names[class], s.code+" "+s.name)
	}
	b := table("Class", "SQLSTATE, with PostgreSQL's name")
	for _, class := range slices.Sorted(maps.Keys(names)) {
		row(b, class.String(), strings.Join(names[class], ", "))
	}
	return b.String()
}

func textTable() string {
	b := table("Text", "It means", "To change it")
	for _, t := range texts {
		code := ""
		if t.code != "" {
			code = "`" + t.code + "`"
		}
		row(b, "“"+strings.TrimRight(t.text, ": ")+"”", t.means, code)
	}
	return b.String()
}

// categoryTable has the categories by their classes.
func categoryTable() string {
	names := map[string][]string{}
	for _, c := range slices.Concat(categories, families) {
		if c.class == "" {
			c.class, c.name = "as the code says", c.name+"…"
		}
		names[c.class] = append(names[c.class], "`"+c.name+"`")
	}
	b := table("Class", "Categories")
	for _, class := range slices.Sorted(maps.Keys(names)) {
		row(b, class, strings.Join(names[class], ", "))
	}
	return b.String()
}

func wordTable() string {
	b := table("Word", "It is", "It means")
	for _, v := range vocabulary {
		if v.kind == "retryvet" || v.kind == "status" {
			continue // other pages have them
		}
		for _, w := range v.words {
			row(b, "`"+w.name+"`", v.kind, w.means)
		}
	}
	return b.String()
}
