package why

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// word is a word that is printed beside failures.
type word struct{ name, class, means string }

const (
	again = "retryable"
	never = "final"
	later = "rate_limited"
)

// categories has every category but those of families.
var categories = []word{
	{"access_terminated", never, "the account was closed or blocked"},
	{"addr_in_use", again, "the address of a socket is in use"},
	{"billing", never, "somebody has to pay first"},
	{"body_not_replayable", never, "the body of the request can be read only once"},
	{"busy", again, "a file, a device or a lock is in use"},
	{"canceled", never, "something was canceled, and not by the context of the call"},
	{"closed", "retryable, final", "what was to be used is closed: a connection is opened again, a file is not"},
	{"commit_unknown", never, "the connection broke during a COMMIT, which may have taken effect"},
	{"conn", again, "there was a failure of the connection that has no other name"},
	{"conn_closed", again, "the other side has closed the connection"},
	{"conn_refused", again, "nobody listens at the address"},
	{"conn_reset", again, "the other side has reset the connection"},
	{"dial", again, "no connection could be opened"},
	{"disk_full", never, "no space is left"},
	{"dns", again, "a name server did not answer or is in trouble"},
	{"dns_not_found", never, "the DNS does not have the name"},
	{"eof", again, "the data ended too early"},
	{"exists", never, "it exists already"},
	{"fault", never, "retry itself could not do something"},
	{"gave_up", "final, retryable, rate_limited", "an inner policy has given up; an outer one does not multiply its attempts"},
	{"http2_calm", later, "the server of HTTP/2 says ENHANCE_YOUR_CALM"},
	{"http2_goaway", again, "the server of HTTP/2 closes the connection"},
	{"http2_refused", again, "the server of HTTP/2 has refused the stream, and not handled it"},
	{"http2_reset", again, "the server of HTTP/2 has ended the stream"},
	{"http2_security", never, "the server of HTTP/2 wants better TLS"},
	{"http3_load", later, "the server of HTTP/3 has too much load"},
	{"http3_refused", again, "the server of HTTP/3 has not handled the request"},
	{"http3_reset", again, "the server of HTTP/3 has ended the stream"},
	{"http_invalid", never, "a status is no HTTP status"},
	{"interrupted", again, "a system call was interrupted or would block"},
	{"invalid", never, "an argument, a setting or a document is invalid"},
	{"locklost", never, "the lock of a message is lost: receive it again"},
	{"lost", again, "an attempt has no outcome: its worker died, or its lease ran out"},
	{"malformed", never, "the response is no valid HTTP"},
	{"mongo_commit", again, "the outcome of a commit is unknown"},
	{"mongo_overloaded", later, "the server is overloaded"},
	{"mongo_transaction", again, "the whole transaction may be repeated"},
	{"mongo_transient", again, "the server says that a retry may help"},
	{"no_socket", again, "the system has no socket or port left"},
	{"not_found", never, "a file, a row or a thing is not there"},
	{"not_ready", again, "it is not ready yet"},
	{"not_started", "pending", "what the attempt needs could not be read: see retryjob.MarkNotStarted"},
	{"ownershiplost", never, "another consumer has the partition"},
	{"panic", never, "the function panicked"},
	{"permanent", never, "a method of the error says that no retry helps"},
	{"permission", never, "it is not allowed"},
	{"process_done", never, "the process has ended already"},
	{"quic", "retryable, final", "a failure of QUIC"},
	{"quota_exhausted", never, "a quota of a day or a month is used up: no wait of minutes helps"},
	{"rethinkdb", "retryable, final", "the server is not available, or has refused the query"},
	{"redirects", never, "there were too many redirects, or a bad one"},
	{"redis", never, "the server has refused the command"},
	{"resources", again, "files, memory or buffers are used up: such failures need a long backoff"},
	{"row", again, "the row of a job could not be read or stored"},
	{"should_retry", again, "the server says so with X-Should-Retry"},
	{"socks", "retryable, final", "the SOCKS proxy has refused or failed"},
	{"ssh", never, "the two sides of SSH cannot agree"},
	{"ssh_host_key", never, "the key of the host is not the known one"},
	{"start", "retryable, final", "the command could not be started"},
	{"stderr_auth", never, "standard error speaks of a permission or a certificate"},
	{"stderr_invalid", never, "standard error speaks of something that is invalid or missing"},
	{"stderr_quota", never, "standard error speaks of a quota that is used up"},
	{"stderr_rate_limit", later, "standard error speaks of a rate limit"},
	{"stderr_transient", again, "standard error speaks of a connection, a timeout or a lock"},
	{"stderr_usage", never, "standard error says that the command was called wrongly"},
	{"stdin_spent", never, "standard input can be read only once, and was read"},
	{"temporary", again, "the service says that the failure is temporary"},
	{"timeout", again, "a limit of time was reached, and not that of the context of the call"},
	{"tls", never, "TLS has failed, such as with a server that speaks none"},
	{"tls_alert", "retryable, final", "the other side has ended TLS with an alert"},
	{"tls_cert", never, "a certificate is not valid or not trusted"},
	{"tls_record", again, "a record of TLS is broken"},
	{"transient", again, "a method of the error says that a retry may help"},
	{"truncated", again, "the response has ended too early"},
	{"unavailable", again, "a method of the error says that a service is unavailable"},
	{"unreachable", again, "there is no route to the host or network"},
	{"unsent", again, "the request was not sent"},
	{"unsupported", never, "the operation is not supported"},
	{"until", again, "the condition of --until does not hold yet"},
	{"until_fails", again, "the command has not failed yet, for which --until-fails waits"},
	{"wait_delay", never, "a child of the command kept its output open"},
}

// families are categories that end in a code.
var families = []word{
	{"aerospike_", "", "a result code of Aerospike"},
	{"amqp_", "", "a reply code of AMQP 0.9"},
	{"amqp:", "", "a condition of AMQP 1.0"},
	{"com.microsoft:", "", "a condition of Service Bus or Event Hubs"},
	{"aws_", "", "a code of AWS that its SDKs retry"},
	{"cassandra_", "", "a code of Cassandra's protocol, in hexadecimal"},
	{"clickhouse_", "", "an error code of ClickHouse"},
	{"connect_", "", "a code of Connect, which is one of gRPC"},
	{"exit_", "", "the exit code of a command"},
	{"grpc_", "", "a code of gRPC"},
	{"hcloud_", "", "a code of Hetzner Cloud"},
	{"http_", "", "the status of a response"},
	{"imap_", "", "a response code of IMAP"},
	{"kafka_", "", "an error code of Kafka"},
	{"ldap_", "", "a result code of LDAP"},
	{"mongo_", "", "an error code of MongoDB"},
	{"mqtt_", "", "a reason code of MQTT 5, in hexadecimal"},
	{"mssql_", "", "an error number of SQL Server"},
	{"mysql_", "", "an error number of MySQL or MariaDB"},
	{"ora_", "", "an error number of Oracle"},
	{"binance_", "", "an error code of Binance"},
	{"centrifugo_", "", "an error code of Centrifugo"},
	{"gocloud_", "", "a code of the Go CDK"},
	{"jsonrpc_", "", "an error code of JSON-RPC"},
	{"krb_", "", "an error code of Kerberos"},
	{"libvirt_", "", "an error code of libvirt"},
	{"opcua_", "", "a status code of OPC UA"},
	{"postmark_", "", "an error code of Postmark"},
	{"pulsar_", "", "a result of Apache Pulsar"},
	{"rethinkdb_", "", "a kind of error of RethinkDB"},
	{"xmpp_", "", "a condition of XMPP"},
	{"redis_", "", "the code of a reply of Redis"},
	{"reply_", "", "a reply code of SMTP or FTP: 4xx is retryable, 5xx is final"},
	{"signal_", "", "a signal ended the command"},
	{"sql_", "", "a SQLSTATE"},
	{"sqlite_", "", "a result code of SQLite"},
	{"ssh_", "", "why an SSH server has not opened a channel"},
	{"ws_", "", "the close code of a WebSocket"},
	{"bitcoin_", "", "an error code of a Bitcoin node"},
	{"capnp_", "", "an exception of Cap'n Proto"},
	{"coap_", "", "a response code of CoAP"},
	{"kurrentdb_", "", "an error code of KurrentDB"},
	{"modbus_", "", "an exception code of Modbus"},
	{"nsq_", "", "an error of NSQ"},
	{"rocketmq_", "", "a response code of RocketMQ"},
	{"tarantool_", "", "an error code of Tarantool or its client"},
	{"wechat_", "", "an error code of WeChat"},
	{"x_", "", "an error code of X"},
}

// vocabulary has the other words of logs, metrics and events, and the kinds of things that they are.
var vocabulary = []struct {
	kind  string
	words []word
}{
	{"class", []word{
		{"unknown", "", "nothing is known of the failure; it is retried, unless `Overrides` say otherwise"},
		{"final", "", "another attempt cannot help"},
		{"retryable", "", "another attempt may help"},
		{"rate_limited", "", "another attempt will help later"},
		{"pending", "", "nothing failed: the awaited result is not there yet"},
	}},
	{"event", []word{
		{"retrying", "", "an attempt failed, and another one follows"},
		{"succeeded", "", "the call succeeded"},
		{"gave_up", "", "the call failed; its stop says why"},
		{"held", "", "a `Quota` holds all calls, because the server refused one"},
	}},
	{"outcome", []word{
		{"done", "", "the stored job has succeeded"},
		{"again", "", "the job comes again at its time"},
		{"ended", "", "the job has failed and comes no more"},
		{"handed", "", "the job is handed back without a result: its worker stops, or has lost it"},
		{"refused", "", "the attempt could not start, or the `Quota` has no turn yet; the job comes again"},
	}},
	{"status", []word{
		{"ready", "", "a stored job waits to be run"},
		{"waiting", "", "a stored job waits for its retry"},
		{"running", "", "a worker has the job, until its lease runs out"},
		{"dead", "", "a stored job was given up; `Table.TryAgain` tries it again"},
		{"other", "", "the row has a word that is none of the `Statuses`"},
	}},
	{"stop", []word{{"none", "", "the call was not given up"}}},
	{"retryvet", []word{
		{"overflow", "", "`1 << n` overflows before the cap"},
		{"sleep", "", "a wait ignores the context"},
		{"lastsleep", "", "a wait after the last attempt"},
		{"deadctx", "", "attempts with a context that has ended"},
		{"body", "", "a request is sent again after its body was read"},
		{"leak", "", "a response is not closed before the next attempt"},
		{"deferloop", "", "a `defer` piles up"},
		{"post", "", "a POST is done twice"},
		{"unbounded", "", "nothing ends the attempts"},
		{"nojitter", "", "clients come back together"},
		{"lost", "", "the last error, a mark or a result is thrown away"},
		{"nested", "", "attempts multiply"},
		{"policychange", "", "a policy is changed while it is in use"},
		{"callcopy", "", "a `Call` is copied"},
		{"callend", "", "`Call.End` is not called"},
		{"nonidempotent", "", "a policy is `NonIdempotent`, and nothing says `NotApplied`"},
		{"pasttimeout", "", "the waits are longer than the limit of time"},
		{"twoturns", "", "a job waits for two turns of one `Quota`"},
		{"ignore", "", "`//retryvet:ignore` without a reason"},
	}},
}

// texts has the texts of errors of this library that its users meet, and what helps.
var texts = []struct{ text, means, code string }{
	{
		"Call.End was not called for attempt", "a loop over a `Call` has a branch without `End`",
		"call.End(err) // in every branch",
	},
	{
		"retry: worker lost", "an attempt has no outcome: its worker died, or its lease ran out; it is counted",
		`policy.Overrides = map[string]retry.Override{"lost": {MaxAttempts: 2}}`,
	},
	{
		"retry: fn is nil", "there is nothing to call", "err = policy.Execute(ctx, func(context.Context) error { return nil })",
	},
	{
		"retry: the turn has not come", "a `Quota` holds the stored job, which comes again", "policy.Quota = nil // without the quota",
	},
	{
		"panic: ", "the function of a job panicked; such an error is Final", "",
	},
	{
		"retry: invalid policy", "the text has the path of every fault, its value and what to write", "err = policy.Validate()",
	},
	{
		"the outcome of the commit is unknown", "the connection broke during a COMMIT",
		"options.Idempotent = true // if the transaction may run twice",
	},
	{"retrypool: closed", "the task was not taken, so nothing was tried", ""},
	{"retrypool: queue is full", "the task was not taken, so nothing was tried", "pool.Queue = 10_000"},
	{"retrytable: lease lost", "another worker has the job, or its lease ran out", "table.Lease = 5 * time.Minute"},
	{"retrytable: the table does not fit", "the text has every misfit, and the SQL that mends it", ""},
	{"retryhttp: Base returned neither", "the `Base` of the Transport has a fault", ""},
	{"retryhttp: the content cannot be continued", "`Download` has to begin anew", ""},
}

// sentinels are the errors with some of these texts.
var sentinels = map[string]string{
	"retrypgx.ErrCommitUnknown": "the outcome of the commit is unknown",
	"retrypolicies.ErrUnknown":  "retrypolicies: unknown policy",
	"retrypool.ErrClosed":       "retrypool: closed",
	"retrypool.ErrFull":         "retrypool: queue is full",
	"retrysql.ErrCommitUnknown": "the outcome of the commit is unknown",
	"retrytable.ErrLeaseLost":   "retrytable: lease lost",
	"retrytable.ErrTable":       "retrytable: the table does not fit",
}

// ofSentinel answers about a variable of this library, or returns nil.
func ofSentinel(name string) *Answer {
	for sentinel, text := range sentinels {
		if same(clean(name), sentinel) {
			return ofText(text)
		}
	}
	return nil
}

// packages is the beginning of an error of this library.
var packages = regexp.MustCompile(`\bretry([a-z]*): `)

// wordAnswers answers about a word: each kind of thing that it is the name of has an answer.
func wordAnswers(name string, p *retry.Policy) (all []*Answer) {
	for _, c := range categories {
		if c.name == name {
			all = append(all, category(c, name, p))
		}
	}
	if len(all) == 0 {
		all = familyAnswers(name, p)
	}
	for _, v := range vocabulary {
		for _, w := range v.words {
			if w.name == name {
				all = append(all, meaning(v.kind, w))
			}
		}
	}
	return all
}

func category(c word, name string, p *retry.Policy) *Answer {
	a := &Answer{About: name}
	v := retry.Verdict{Class: classes[c.class], Category: name}
	if v.Class == retry.Unknown {
		a.add("class", "%s", cmp.Or(c.class, "as its code says; the log has it beside the category"))
		a.add("category", "%s", name)
	} else {
		a.classify(v)
	}
	a.add("meaning", "%s", c.means)
	if v.Class != retry.Unknown {
		a.outcome("Execute", p, v, false)
	}
	if v.Class != retry.Final && ofConnection.MatchString(name) {
		a.add("a GET", "the same")
		a.add("a POST", "the same if nothing of it was sent, and otherwise not retried: it may have taken effect")
		a.add("InTx", "the same, on a new connection; a lost COMMIT is final (commit_unknown)")
	}
	switch {
	case name == "body_not_replayable":
		a.code("transport.BufferBody = 1 << 20 // or a GetBody, or a body that is an io.Seeker")
	case name == "commit_unknown":
		a.code("options.Idempotent = true // if the transaction may run twice")
	case name == "gave_up":
		a.code("policy.Classifier = retry.On(retry.Retryable, retry.StopAttempts) // if their attempts may multiply")
	case c.class == never:
		a.code(retryIt(name))
	default:
		a.code(override(name))
	}
	a.see("categories")
	return a
}

var classes = map[string]retry.Class{again: retry.Retryable, never: retry.Final, later: retry.RateLimited}

// ofConnection matches categories of failures beneath HTTP.
var ofConnection = regexp.MustCompile(`^(conn|dial|dns|eof|http[23]_|no_socket|timeout|tls_record|truncated|unreachable)`)

// override returns code that ends a call at its first failure of a kind.
func override(kind string) string {
	return `policy.Overrides = map[string]retry.Override{"` + kind + `": {MaxAttempts: 1}} // not to retry it`
}

// retryIt returns code that retries a category that is Final.
func retryIt(category string) string {
	return "policy.Classifier = func(err error) retry.Verdict { // to retry it\n\tv := retry.Classify(err)\n" +
		"\tif v.Category == \"" + category + "\" {\n\t\tv.Class = retry.Retryable\n\t}\n\treturn v\n}"
}

// familyAnswers answers about a category that ends in a code.
func familyAnswers(name string, p *retry.Policy) []*Answer {
	for _, f := range families {
		code, ok := strings.CutPrefix(name, f.name)
		if !ok || code == "" {
			continue
		}
		switch f.name {
		case "sql_":
			if len(code) == len("40001") {
				return []*Answer{SQLState(code, p)}
			}
			if n, ok := findName(sqlNames[code]); ok {
				return []*Answer{about(n, p)}
			}
		case "signal_":
			if n := signals[code]; n > 0 {
				return []*Answer{Exit(n, "", retryexec.Default(), p)}
			}
		case "exit_":
			if n, err := strconv.Atoi(code); err == nil {
				return []*Answer{Exit(n, "", retryexec.Default(), p)}
			}
		case "grpc_", "connect_":
			if n, ok := findName(codePrefix + strings.ToUpper(strings.Replace(code, "canceled", "cancelled", 1))); ok {
				return []*Answer{about(n, p)}
			}
		}
		if v := ofFamily(f.name, code); v.Class != retry.Unknown {
			f.class = v.Class.String()
		}
		return []*Answer{category(f, name, p)}
	}
	return nil
}

// sqlNames are the errors of database/sql, by the ends of their categories.
var sqlNames = map[string]string{
	"bad_conn": "driver.ErrBadConn", "conn_done": "sql.ErrConnDone", "no_rows": "sql.ErrNoRows", "tx_done": "sql.ErrTxDone",
}

func meaning(kind string, w word) *Answer {
	a := &Answer{About: w.name}
	a.add(kind, "%s", plainText(w.means))
	switch kind {
	case "class":
		if w.name != never {
			a.code(override(w.name))
		}
		a.see("words-of-logs")
	case "status":
		a.add("more", "docs/recipes.md#dead-rows")
	case "retryvet":
		a.add("to change", "//retryvet:ignore and the reason, if it is on purpose")
		a.add("more", "docs/retryvet.md#%s", w.name)
	default:
		a.see("words-of-logs")
	}
	return a
}

// ofText answers about the text of an error of this library.
func ofText(text string) *Answer {
	for _, t := range texts {
		if strings.Contains(text, t.text) {
			a := &Answer{About: strings.TrimRight(t.text, ": ")}
			a.add("meaning", "%s", plainText(t.means))
			if t.code != "" {
				a.code(t.code)
			}
			a.see("other-texts")
			return a
		}
	}
	if m := packages.FindStringSubmatch(text); m != nil {
		a := &Answer{About: text}
		a.add("from", "the package retry%s", m[1])
		a.add("meaning", "a setting, an argument or a document is wrong: the text names it, its value and what to write")
		a.see("other-texts")
		return a
	}
	return nil
}
