package model

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-5ff3c98e/retry"
)

// literal returns the Go code of a policy, as gofmt writes it.
func literal(p *retry.Policy) string {
	fields := fieldsOf(reflect.ValueOf(*p))
	switch {
	case len(p.Overrides) == 0 && len(fields) == 0:
		return "retry.Policy{}"
	case len(p.Overrides) == 0:
		return "retry.Policy{\n" + fields.aligned("\t") + "}"
	}
	var overrides entries
	for _, kind := range slices.Sorted(maps.Keys(p.Overrides)) {
		fields := fieldsOf(reflect.ValueOf(p.Overrides[kind]))
		overrides = append(overrides, [2]string{strconv.Quote(kind) + ":", "{" + fields.inline() + "}"})
	}
	return "retry.Policy{\n" + fields.aligned("\t") +
		"\tOverrides: map[string]retry.Override{\n" + overrides.aligned("\t\t") + "\t},\n}"
}

// entries are fields and their values.
type entries [][2]string

// fieldsOf returns the fields of a struct that are set, and are data. Overrides are
// written apart.
func fieldsOf(v reflect.Value) (fields entries) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !v.Field(i).IsZero() && name != "Overrides" && !slices.Contains(notData, name) {
			fields = append(fields, [2]string{name + ":", valueOf(v.Field(i))})
		}
	}
	return fields
}

// aligned returns the fields one a line.
func (e entries) aligned(indent string) string {
	width := 0
	for _, entry := range e {
		width = max(width, utf8.RuneCountInString(entry[0]))
	}
	var b strings.Builder
	for _, entry := range e {
		fmt.Fprintf(&b, "%s%-*s %s,\n", indent, width, entry[0], entry[1])
	}
	return b.String()
}

// inline returns the fields in one line.
func (e entries) inline() string {
	parts := make([]string, len(e))
	for i, entry := range e {
		parts[i] = entry[0] + " " + entry[1]
	}
	return strings.Join(parts, ", ")
}

// valueOf returns the code of a value.
func valueOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface:
		return builtIn(v.Elem())
	case reflect.Int:
		if v.Int() == retry.Unlimited {
			return "retry.Unlimited"
		}
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Int64:
		if v.Int() == int64(retry.EqualShare) {
			return "retry.EqualShare"
		}
		return duration(time.Duration(v.Int()))
	case reflect.Float64:
		return fmt.Sprint(v.Float())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	default:
		return strconv.Quote(v.String())
	}
}

// builtIn returns the code of a backoff or a jitter.
func builtIn(v reflect.Value) string {
	name := "retry." + v.Type().Name()
	switch v.Kind() {
	case reflect.Struct:
		return name + "{" + fieldsOf(v).inline() + "}"
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = valueOf(v.Index(i))
		}
		return name + "{" + strings.Join(parts, ", ") + "}"
	case reflect.Uint8:
		return "retry." + constantName(v.Interface().(fmt.Stringer)) //nolint:forcetypeassert // has a String method
	default:
		return name + "(" + valueOf(v) + ")"
	}
}

// constantName returns the name of a constant: "FullJitter" if it prints as "full jitter".
func constantName(v fmt.Stringer) string {
	var name strings.Builder
	for word := range strings.FieldsSeq(v.String()) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// duration returns the code of a duration, in its largest whole unit.
func duration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{
		{time.Hour, "time.Hour"},
		{time.Minute, "time.Minute"},
		{time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"},
		{time.Microsecond, "time.Microsecond"},
	} {
		switch {
		case d == unit.d:
			return unit.name
		case d > 0 && d%unit.d == 0:
			return fmt.Sprintf("%d * %s", d/unit.d, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}
