package sqlerr

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// sqliteCode reads the errors of the three drivers, or returns 0: fields of
// mattn, Code() int of modernc, ExtendedCode() of a type of its own of ncruces.
// The codes of mattn and ncruces are errors themselves.
func sqliteCode(t reflect.Type, err error) int {
	v := reflect.Indirect(reflect.ValueOf(err))
	switch t.Name() {
	case "ErrorCode", "ExtendedErrorCode", "ErrNo", "ErrNoExtended":
		return integer(v)
	case "Error":
	default:
		return 0
	}
	if v.Kind() == reflect.Struct {
		for _, field := range []string{"ExtendedCode", "Code"} {
			if code := integer(v.FieldByName(field)); code > 0 {
				return code
			}
		}
	}
	code, _ := errtree.Try(func() int {
		if e, ok := err.(interface{ Code() int }); ok {
			return max(e.Code(), 0)
		}
		// The name is a constant, so that the linker keeps the methods of this
		// name only.
		method := reflect.ValueOf(err).MethodByName("ExtendedCode")
		if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
			return 0
		}
		return integer(method.Call(nil)[0])
	})
	return code
}

// integer returns a positive integer of any type, or 0.
func integer(v reflect.Value) int {
	const limit = 1 << 30
	switch {
	case !v.IsValid():
	case v.CanInt() && v.Int() > 0 && v.Int() < limit:
		return int(v.Int())
	case v.CanUint() && v.Uint() < limit:
		return int(v.Uint())
	}
	return 0
}

// sqliteText finds the two retryable codes in a text, which may have the
// extended code in parentheses: "database is locked (5) (SQLITE_BUSY)".
func sqliteText(text string) int {
	switch {
	case strings.Contains(text, "database table is locked"), strings.Contains(text, "(SQLITE_LOCKED"):
		return extended(text, known.SQLiteLocked)
	case strings.Contains(text, "database is locked"), strings.Contains(text, "(SQLITE_BUSY"):
		return extended(text, known.SQLiteBusy)
	default:
		return 0
	}
}

// extended returns the last number in parentheses that extends a code, or the
// code itself.
func extended(text string, code int) int {
	for {
		i := strings.LastIndexByte(text, '(')
		if i < 0 {
			return code
		}
		digits, _, _ := strings.Cut(text[i+1:], ")")
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil && int(n)&0xff == code {
			return int(n)
		}
		text = text[:i]
	}
}
