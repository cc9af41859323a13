package sqlerr

import (
	"reflect"
	"strconv"
	"strings"
)

// mysqlError reads the error types of go-sql-driver (MySQLError), go-mysql-org
// (MyError) and mymysql (Error).
func mysqlError(t reflect.Type, err error) (number int, state string, ok bool) {
	field := "Code"
	switch t.Name() {
	case "MySQLError":
		field = "Number"
	case "MyError", "Error":
	default:
		return 0, "", false
	}
	e := reflect.Indirect(reflect.ValueOf(err))
	if e.Kind() != reflect.Struct {
		return 0, "", false
	}
	n := e.FieldByName(field)
	if !n.IsValid() || !n.CanUint() || n.Uint() == 0 || n.Uint() > 1<<16-1 {
		return 0, "", false
	}
	return int(n.Uint()), mysqlState(e), true
}

// mysqlState reads the five bytes of go-sql-driver, or the text of go-mysql-org.
func mysqlState(e reflect.Value) string {
	if s := e.FieldByName("State"); s.IsValid() && s.Kind() == reflect.String {
		return s.String()
	}
	s := e.FieldByName("SQLState")
	if !s.IsValid() || s.Kind() != reflect.Array || s.Type().Elem().Kind() != reflect.Uint8 {
		return ""
	}
	var b strings.Builder
	for i := range s.Len() {
		b.WriteByte(byte(s.Index(i).Uint()))
	}
	return b.String()
}

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
