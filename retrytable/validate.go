package retrytable

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// faults collects everything that is wrong with a Table.
type faults []error

func (f *faults) add(field string, value any, problem string) {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	*f = append(*f, fmt.Errorf("retrytable: %s: %v: %s", field, value, problem))
}

func (d *definition) validate() error {
	var f faults
	if int(d.kind) >= len(dialects) {
		f.add("Dialect", uint8(d.kind), "unknown")
	}
	if slices.Contains(strings.Split(d.name, "."), "") {
		f.add("Name", d.name, "must be the name of a table")
	}
	if strings.ContainsRune(d.name, 0) {
		f.add("Name", d.name, "must not contain a zero byte")
	}
	switch {
	case int(d.as) >= len(instantsNames):
		f.add("Instants", uint8(d.as), "unknown")
	case d.dialect.instants(d.as) == nil:
		f.add("Instants", instantsNames[d.as], d.dialect.name()+" has no such type")
	}
	if d.lease < 0 {
		f.add("Lease", d.lease, "must not be negative")
	}
	d.validateMerge(&f)
	d.columns.validate(&f)
	d.statuses.validate(&f)
	d.validateError(&f)
	for _, sql := range []struct{ field, text string }{
		{"Where", d.where},
		{"Where, ClaimWhere, Set.Claim", set(d.where, d.claimWhere, d.set.Claim)},
		{"Where, Set.Promote", set(d.where, d.set.Promote)},
		{"Set.Succeed", d.set.Succeed},
		{"Set.Fail", d.set.Fail},
		{"Set.Release", d.set.Release},
	} {
		if _, missing := d.parameters(sql.text); missing > 0 {
			f.add(sql.field, sql.text, fmt.Sprintf("has no $%d", missing))
		}
	}
	allowed, _ := d.parameters(d.set.Fail)
	for _, sql := range []struct{ field, text string }{{"Set.Retry", d.set.Retry}, {"Set.End", d.set.End}} {
		if n, missing := d.parameters(set(d.set.Fail, sql.text)); sql.text != "" && (missing > 0 || n > allowed) {
			f.add(sql.field, sql.text, "must have no parameters but those of Set.Fail")
		}
	}
	if n, _ := d.parameters(d.where); d.orderBy != "" && !d.noPromote {
		if m, _ := d.parameters(d.set.Promote); m > n {
			f.add("Set.Promote", d.set.Promote, "must have no parameters but those of Where, or there must be NoPromote")
		}
	}
	if n, _ := d.parameters(d.orderBy); n > 0 {
		f.add("OrderBy", d.orderBy, "must not have parameters")
	}
	return errors.Join(f...)
}

// validateError finds the mistake of a Set that writes the text itself, which PostgreSQL
// refuses only when a job ends.
func (d *definition) validateError(f *faults) {
	if d.columns.Error == "" {
		return
	}
	assignment := regexp.MustCompile("(?i)(?:^|,)\\s*[\"`]?" + regexp.QuoteMeta(d.columns.Error) + "[\"`]?\\s*=")
	for _, sql := range []struct{ field, text string }{
		{"Set.Succeed", d.set.Succeed}, {"Set.Fail", d.set.Fail}, {"Set.Retry", d.set.Retry}, {"Set.End", d.set.End},
	} {
		if assignment.MatchString(sql.text) {
			f.add(sql.field, sql.text, fmt.Sprintf("must not set %q: Columns.Error is written already", d.columns.Error))
		}
	}
}

func (d *definition) validateMerge(f *faults) {
	switch {
	case !d.merge:
	case d.kind == MySQL:
		f.add("Merge", true, "MySQL has no such claim: its rows would be locked in another order")
	case d.orderBy == "":
		f.add("Merge", true, "needs an OrderBy")
	case d.noPromote:
		f.add("Merge", true, "must not be there with NoPromote: nothing is promoted")
	case d.statuses.Ready == d.statuses.Waiting:
		f.add("Merge", true, "needs a word for Waiting that is not the one for Ready")
	}
}

func (c *Columns) validate(f *faults) {
	if c.Retries != "" && c.Attempts != "" {
		f.add("Columns.Retries", c.Retries, "must not be there with Attempts")
	}
	seen := map[string]string{}
	for _, column := range c.all() {
		field := "Columns." + column.field
		switch other, taken := seen[strings.ToLower(column.name)]; {
		case column.name == "":
			continue
		case strings.ContainsRune(column.name, 0):
			f.add(field, column.name, "must not contain a zero byte")
		case taken:
			f.add(field, column.name, "is "+other+" already")
		}
		seen[strings.ToLower(column.name)] = field
	}
}

// column is a field of Columns and its value.
type column struct{ field, name string }

// all are the columns; the name of an optional one may be empty.
func (c *Columns) all() []column {
	return []column{
		{"ID", c.ID},
		{"Status", c.Status},
		{"Attempts", c.Attempts},
		{"Retries", c.Retries},
		{"Due", c.Due},
		{"Lease", c.Lease},
		{"Fence", c.Fence},
		{"RateLimited", c.RateLimited},
		{"Pending", c.Pending},
		{"First", c.First},
		{"Kind", c.Kind},
		{"Error", c.Error},
	}
}

// all are the words.
func (s *Statuses) all() []string {
	return slices.Concat([]string{s.Ready, s.Waiting, s.Dead}, s.Running, s.Done)
}

func (s *Statuses) validate(f *faults) {
	word := func(field, word string, others ...string) {
		switch {
		case strings.ContainsAny(word, "\\\x00"):
			f.add(field, word, "must not contain a backslash or a zero byte")
		case slices.Contains(others, word):
			f.add(field, word, "must not mean two states")
		case word == "":
			f.add(field, word, "must not be empty")
		}
	}
	word("Statuses.Ready", s.Ready)
	word("Statuses.Waiting", s.Waiting)
	words := func(field string, all []string, others ...string) {
		for i, each := range all {
			word(fmt.Sprintf("%s[%d]", field, i), each, others...)
			if slices.Contains(all[:i], each) {
				f.add(fmt.Sprintf("%s[%d]", field, i), each, "must not be there twice")
			}
		}
	}
	words("Statuses.Running", s.Running, append([]string{s.Ready, s.Waiting, s.Dead}, s.Done...)...)
	words("Statuses.Done", s.Done, s.Ready, s.Waiting)
	word("Statuses.Dead", s.Dead, s.Ready)
}
