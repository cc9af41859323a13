package why

import (
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	facts "github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// phrases are parts of texts of clients and servers, and the word that they are an instance of.
var phrases = []struct{ text, word string }{
	{"client.timeout exceeded", "os.ErrDeadlineExceeded"},
	{"tls handshake timeout", "os.ErrDeadlineExceeded"},
	{"server sent goaway", "http2_goaway"},
	{"refused_stream", "http2_refused"},
	{"enhance_your_calm", "http2_calm"},
	{"stream error: stream id", "http2_reset"},
	{"remote error: tls", "tls_alert"},
	{"x509: ", "tls_cert"},
	{"tls: ", "tls"},
	{"invalid connection", "driver.ErrBadConn"},
	{"the object has been modified", "http_409"},
	{"oomkilled", "signal_killed"},
	{"dead letter", "dead"},

	{"deadlock detected", "40P01"},
	{"could not serialize access", "40001"},
	{"could not obtain lock", "55P03"},
	{"too many clients already", "53300"},
	{"too many connections for", "53300"},
	{"remaining connection slots are reserved", "53300"},
	{"the database system is", "57P03"},
	{"terminating connection due to administrator", "57P01"},
	{"canceling statement due to", "57014"},
	{"in a read-only transaction", "25006"},
	{"current transaction is aborted", "25P02"},
	{"violates unique constraint", "23505"},
	{"violates foreign key constraint", "23503"},
	{"password authentication failed", "28P01"},
	{"prepared statement", "26000"},
	{"database is locked", "sqlite_busy"},
	{"database table is locked", "sqlite_locked"},
}

var (
	statusWords = regexp.MustCompile(`(?i)(?:\bhttp(?:/[0-9.]+)?|\bstatus(?:[ _]?code)?)["']?[ :=]+["']?([45][0-9]{2})\b|^(?:[A-Za-z]+ )?([45][0-9]{2})\b`)
	mysqlIn     = regexp.MustCompile(`\bError ([0-9]{4,5})(?: \(([0-9A-Z]{5})\))?:?(?:\s|$)`)
	replyAt     = regexp.MustCompile(`^(4[25][0-9]|5[0-9]{2})[ -](?:([0-9]\.[0-9]{1,3}\.[0-9]{1,3})\b)?`)
	grpcIn      = regexp.MustCompile(`\bcode = ([A-Z][A-Za-z]+)`)
	curlAt      = regexp.MustCompile(`\bcurl: \(([0-9]+)\)`)
	checkAt     = regexp.MustCompile(`#([a-z]+)\)$`) // of retryvet
	signalIn    = regexp.MustCompile(`(?i)\b(?:signal: |SIG)([a-z]+)`)
)

// pasted answers about a text that somebody else has written, or returns none.
func (q *Question) pasted(text string) []*Answer {
	lower := strings.ToLower(text)
	if m := grpcIn.FindStringSubmatch(text); m != nil {
		if n, ok := findName("codes." + m[1]); ok {
			return []*Answer{about(n, q.Policy)}
		}
	}
	if m := curlAt.FindStringSubmatch(text); m != nil {
		code, _ := strconv.Atoi(m[1])
		return []*Answer{Exit(code, text, append(retryexec.Curl(), retryexec.Default()...), q.Policy)}
	}
	if m := mysqlIn.FindStringSubmatch(text); m != nil {
		number, _ := strconv.Atoi(m[1])
		return []*Answer{q.verdict("error "+m[1]+" of MySQL", verdict.Of(facts.MySQL(number, m[2])), "databases")}
	}
	if f := facts.Redis(text); f.Class != facts.Unknown {
		return []*Answer{q.verdict("a reply of Redis", verdict.Of(f), "errors")}
	}
	if m := replyAt.FindStringSubmatch(text); m != nil && (m[2] != "" || strings.Contains("421 450 451 452 454 535 550 551 552 553 554 555", m[1])) {
		code, _ := strconv.Atoi(m[1])
		return []*Answer{q.verdict("a reply of SMTP or FTP", retry.Classify(&textproto.Error{Code: code, Msg: text}), "errors")}
	}
	if m := checkAt.FindStringSubmatch(text); m != nil {
		return q.word(m[1])
	}
	for _, p := range phrases {
		if strings.Contains(lower, p.text) {
			return q.word(p.word)
		}
	}
	if m := signalIn.FindStringSubmatch(text); m != nil {
		if code, ok := signals[strings.ToLower(m[1])]; ok {
			return []*Answer{Exit(code, "", retryexec.Default(), q.Policy)}
		}
	}
	return nil
}

// signals have the exit codes of a shell.
var signals = map[string]int{
	"hangup": 129, "hup": 129, "interrupt": 130, "int": 130, "abrt": 134, "killed": 137, "kill": 137,
	"segmentation": 139, "segv": 139, "pipe": 141, "terminated": 143, "term": 143,
}

// asStandardError answers about the words that a command would be known by, or returns nil.
func (q *Question) asStandardError(text string) *Answer {
	v := retryexec.Default().ClassifyExit(nil, 1, text)
	if !strings.HasPrefix(v.Category, "stderr_") {
		return nil
	}
	a := q.verdict("the text, on the standard error of a command", v, "commands")
	a.add("to ask", "policy.Classify(err) in your program: the type of an error says more than its text")
	return a
}

// verdict answers about a failure that is known by a code.
func (q *Question) verdict(about string, v retry.Verdict, see string) *Answer {
	a := &Answer{About: about}
	a.classify(v)
	a.outcome("Execute", q.Policy, v, false)
	switch {
	case v.Category == "":
		a.code(override(v.Class.String()))
	case v.Class == retry.Final:
		a.code(retryIt(v.Category))
	default:
		a.code(override(v.Category))
	}
	a.see(see)
	return a
}

// ofFamily returns the verdict about a code of a family, if it can be told without the client.
func ofFamily(family, code string) (v retry.Verdict) {
	number, err := strconv.Atoi(code)
	switch {
	case family == "sqlite_" && err != nil:
		names := map[string]int{"busy": facts.SQLiteBusy, "locked": facts.SQLiteLocked, "ioerr": facts.SQLiteIOErr, "corrupt": facts.SQLiteCorrupt}
		if number = names[code]; number == 0 {
			return v
		}
		return verdict.Of(facts.SQLite(number))
	case family == "redis_":
		return verdict.Of(facts.Redis(strings.ToUpper(code)))
	case err != nil:
		return v
	}
	switch family {
	case "mysql_":
		return verdict.Of(facts.MySQL(number, ""))
	case "mssql_":
		return verdict.Of(facts.SQLServer(int32(number)))
	case "sqlite_":
		return verdict.Of(facts.SQLite(number))
	case "ora_":
		return verdict.Of(facts.Oracle(int64(number)))
	case "kafka_":
		return verdict.Of(facts.Kafka(int64(number)))
	case "reply_":
		return retry.Classify(&textproto.Error{Code: number})
	case "ws_":
		return retry.Classify(&CloseError{number})
	default:
		return v
	}
}

// CloseError is known by its name and field, as the errors of the packages for WebSockets are.
type CloseError struct{ Code int }

// Error implements error.
func (*CloseError) Error() string { return "closed" }

// coded is an error with the code of a service.
type coded struct{ Code string }

// Error implements error.
func (*coded) Error() string { return "refused" }

// ofNumber answers about the number of an error of MySQL or SQL Server.
func (q *Question) ofNumber(number string) (all []*Answer) {
	for _, of := range [][2]string{{"mysql_", "MySQL"}, {"mssql_", "SQL Server"}} {
		if v := ofFamily(of[0], number); len(number) > 3 && v.Class != retry.Unknown {
			all = append(all, q.verdict("error "+number+" of "+of[1], v, "databases"))
		}
	}
	return all
}

// ofService answers about the code of a service, such as ThrottlingException, or returns nil.
func (q *Question) ofService(code string) *Answer {
	if v := retry.Classify(&coded{code}); v.Class != retry.Unknown {
		return q.verdict("the code "+code+" of a service", v, "errors")
	}
	return nil
}
