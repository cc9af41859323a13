package sqlerr

import (
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/known"
)

// mysqlText reads the text of go-sql-driver's errors: "Error 1213 (40001): …" or
// "Error 1213: …".
func mysqlText(text string) (number int, state string, ok bool) {
	head, _, ok := strings.Cut(text, ": ")
	if !ok {
		return 0, "", false
	}
	head, ok = strings.CutPrefix(head, "Error ")
	if !ok {
		return 0, "", false
	}
	digits, state, stated := strings.Cut(head, " (")
	if stated {
		state, ok = strings.CutSuffix(state, ")")
		if !ok || len(state) != 5 {
			return 0, "", false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), state, err == nil
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
