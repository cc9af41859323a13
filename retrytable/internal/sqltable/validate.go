package sqltable

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Problems collects everything that is wrong with a Table or a Worker.
type Problems []error

// Add adds one problem.
func (p *Problems) Add(field string, value any, problem string) {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	*p = append(*p, fmt.Errorf("retrytable: %s: %v: %s", field, value, problem))
}

// Validate reports everything that is wrong with t, each with the field and its value.
func (t *Table) Validate() error {
	var p Problems
	t.validateFields(&p)
	t.validateParameters(&p)
	return errors.Join(p...)
}

func (t *Table) validateFields(p *Problems) {
	if int(t.Dialect) >= len(dialects) {
		p.Add("Dialect", uint8(t.Dialect), "unknown")
	}
	if slices.Contains(strings.Split(t.Name, "."), "") {
		p.Add("Name", t.Name, "must be the name of a table")
	}
	if strings.ContainsRune(t.Name, 0) {
		p.Add("Name", t.Name, "must not contain a zero byte")
	}
	switch {
	case int(t.Instants.kind()) >= len(instantsNames):
		p.Add("Instants", uint8(t.Instants), "unknown")
	case int(t.Dialect) < len(dialects) && t.Dialect.sql().instants(t.Instants) == nil:
		p.Add("Instants", instantsNames[t.Instants.kind()], dialectNames[t.Dialect]+" has no such type")
	}
	if t.Notify != "" && (t.Dialect != PostgreSQL || len(t.Notify) > longestChannel || strings.ContainsRune(t.Notify, 0)) {
		p.Add("Notify", t.Notify, "must be a channel of PostgreSQL, of up to 63 bytes, or empty")
	}
	if t.Lease < 0 {
		p.Add("Lease", t.Lease, "must not be negative")
	}
	t.validateMerge(p)
	t.Columns.validate(p)
	t.Statuses.validate(p)
	t.validateError(p)
}

// validateParameters checks that the SQL of each statement has the parameters $1, $2, …
func (t *Table) validateParameters(p *Problems) {
	for _, sql := range []struct{ field, text string }{
		{"Where", t.Where},
		{"Where, ClaimWhere, Set.Claim", set(t.Where, t.ClaimWhere, t.Set.Claim)},
		{"Where, Set.Promote", set(t.Where, t.Set.Promote)},
		{"Set.Succeed", t.Set.Succeed},
		{"Set.Fail", t.Set.Fail},
		{"Set.Release", t.Set.Release},
	} {
		if _, missing := t.parameters(sql.text); missing > 0 {
			p.Add(sql.field, sql.text, fmt.Sprintf("has no $%d", missing))
		}
	}
	allowed, _ := t.parameters(t.Set.Fail)
	for _, sql := range []struct{ field, text string }{{"Set.Retry", t.Set.Retry}, {"Set.End", t.Set.End}} {
		if n, missing := t.parameters(set(t.Set.Fail, sql.text)); sql.text != "" && (missing > 0 || n > allowed) {
			p.Add(sql.field, sql.text, "must have no parameters but those of Set.Fail")
		}
	}
	if n, _ := t.parameters(t.Where); t.OrderBy != "" && !t.NoPromote {
		if m, _ := t.parameters(t.Set.Promote); m > n {
			p.Add("Set.Promote", t.Set.Promote, "must have no parameters but those of Where, or there must be NoPromote")
		}
	}
	if n, _ := t.parameters(t.OrderBy); n > 0 {
		p.Add("OrderBy", t.OrderBy, "must not have parameters")
	}
}

// validateError finds the mistake of a Set that writes the text itself, which PostgreSQL
// refuses only when a job ends.
func (t *Table) validateError(p *Problems) {
	if t.Columns.Error == "" {
		return
	}
	assignment := regexp.MustCompile("(?i)(?:^|,)\\s*[\"`]?" + regexp.QuoteMeta(t.Columns.Error) + "[\"`]?\\s*=")
	for _, sql := range []struct{ field, text string }{
		{"Set.Succeed", t.Set.Succeed}, {"Set.Fail", t.Set.Fail}, {"Set.Retry", t.Set.Retry}, {"Set.End", t.Set.End},
	} {
		if assignment.MatchString(sql.text) {
			p.Add(sql.field, sql.text, fmt.Sprintf("must not set %q: Columns.Error is written already", t.Columns.Error))
		}
	}
}

func (t *Table) validateMerge(p *Problems) {
	switch {
	case !t.Merge:
	case t.Dialect == MySQL:
		p.Add("Merge", true, "MySQL has no such claim: its rows would be locked in another order")
	case t.OrderBy == "":
		p.Add("Merge", true, "needs an OrderBy")
	case t.NoPromote:
		p.Add("Merge", true, "must not be there with NoPromote: nothing is promoted")
	case t.Statuses.Ready == t.Statuses.Waiting:
		p.Add("Merge", true, "needs a word for Waiting that is not the one for Ready")
	}
}

func (c *Columns) validate(p *Problems) {
	if c.Retries != "" && c.Attempts != "" {
		p.Add("Columns.Retries", c.Retries, "must not be there with Attempts")
	}
	seen := map[string]string{}
	for _, column := range c.all() {
		field := "Columns." + column.field
		switch other, taken := seen[strings.ToLower(column.name)]; {
		case column.name == "":
			continue
		case strings.ContainsRune(column.name, 0):
			p.Add(field, column.name, "must not contain a zero byte")
		case taken && (field != "Columns.Key" || other != "Columns.Kind"):
			p.Add(field, column.name, "is "+other+" already")
		}
		seen[strings.ToLower(column.name)] = field
	}
}

// column is a field of Columns and its value.
type column struct{ field, name string }

// all are the columns; the name of an optional one may be empty.
func (c *Columns) all() (all []column) {
	names := reflect.ValueOf(*c)
	for i := range names.NumField() {
		all = append(all, column{names.Type().Field(i).Name, names.Field(i).String()})
	}
	return all
}

// all are the words.
func (s *Statuses) all() []string {
	return slices.Concat([]string{s.Ready, s.Waiting, s.Dead}, s.Running, s.Done)
}

func (s *Statuses) validate(p *Problems) {
	word := func(field, word string, others ...string) {
		switch {
		case strings.ContainsAny(word, "\\\x00"):
			p.Add(field, word, "must not contain a backslash or a zero byte")
		case slices.Contains(others, word):
			p.Add(field, word, "must not mean two states")
		case word == "":
			p.Add(field, word, "must not be empty")
		}
	}
	word("Statuses.Ready", s.Ready)
	word("Statuses.Waiting", s.Waiting)
	words := func(field string, all []string, others ...string) {
		for i, each := range all {
			word(fmt.Sprintf("%s[%d]", field, i), each, others...)
			if slices.Contains(all[:i], each) {
				p.Add(fmt.Sprintf("%s[%d]", field, i), each, "must not be there twice")
			}
		}
	}
	words("Statuses.Running", s.Running, append([]string{s.Ready, s.Waiting, s.Dead}, s.Done...)...)
	words("Statuses.Done", s.Done, s.Ready, s.Waiting)
	word("Statuses.Dead", s.Dead, s.Ready)
}
