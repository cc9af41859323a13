package cli_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		args  []string
		stdin string
		want  []string
	}{
		{"a status", []string{"503"}, "", []string{
			"503 Service Unavailable\n", "retryable", "http_503", "a GET      retried after 0s–200ms, 3 attempts in all\n",
			"a POST     not retried: it may have taken effect\n", "RandomKey", `"http_503": {MaxAttempts: 1}`, "docs/why.md#http-responses",
		}},
		{"a hint", []string{"503", "-H", "Retry-After: 5"}, "", []string{
			"hint       5s\n", "a GET      retried after the hint, 5s, and up to 10 % more\n", "a POST     retried after the hint",
		}},
		{"two headers", []string{"403", "-H", "X-Ratelimit-Remaining: 0", "--header", "Retry-After:7"}, "", []string{"rate_limited", "hint       7s"}},
		{"a long hint", []string{"429", "-H", "retry-after: 7200"}, "", []string{
			"not retried: server asks to wait 2h0m0s, which is longer than MaxRetryAfter\n", "MaxRetryAfter = 3 * time.Hour\n",
		}},
		{"a final status", []string{"404 Not Found"}, "", []string{"final", "not retried: final", "ClassifyResponse"}},
		{"a conflict", []string{"409"}, "", []string{"final", "Idempotency-Key"}},
		{"a success", []string{"200"}, "", []string{"no failure", "ClassifyResponse"}},
		{"a status under a policy", []string{"503", "-n", "1"}, "", []string{"a GET      not retried: attempts\n"}},
		{"a policy of a file", []string{"503", "-p", "-"}, `{"overrides": {"http_503": {"max_attempts": 1}}}`, []string{"a GET      not retried: attempts\n"}},
		{"a text with a status", []string{"Get http://x: 502 Bad Gateway"}, "", []string{"502 Bad Gateway\n"}},
		{"an exit code", []string{"--exit", "75"}, "", []string{"exit code 75\n", "retryable", "retried after 0s–2s", "--final-exit 75"}},
		{"standard error", []string{"--exit", "1", "--stderr", "permission denied"}, "", []string{"stderr_auth", "not retried: final", "--on-exit 1"}},
		{"standard error of a pipe", []string{"--exit", "1", "--stderr", "-"}, "x\nconnection refused\n", []string{"stderr_transient"}},
		{"a profile", []string{"--exit", "6", "--profile", "curl"}, "", []string{"exit code 6\n", "category   exit_6"}},
		{"a type", []string{"*net.DNSError"}, "", []string{"dns_not_found", "not retried: final"}},
		{"a type without its package", []string{"unknownauthorityerror"}, "", []string{"tls_cert"}},
		{"a sentinel", []string{"io.EOF"}, "", []string{"unknown", "retryhttp  retryable", "retry.On(retry.Final, io.EOF)"}},
		{"an errno", []string{"EPIPE"}, "", []string{"conn_reset", "syscall.EPIPE"}},
		{"words of a text", []string{"read", "tcp:", "connection", "reset", "by", "peer"}, "", []string{"conn_reset"}},
		{"a code of gRPC", []string{"UNAVAILABLE"}, "", []string{"grpc_unavailable"}},
		{"a type of a client", []string{"*pgconn.PgError"}, "", []string{"SQLState: retry why 40001"}},
		{"an unknown type", []string{"*shop.OrderError"}, "", []string{"shop.OrderError\n", "unknown: retried", "retry.MarkRetryable", "policy.Classify"}},
		{"a SQLSTATE", []string{"40001"}, "", []string{"serialization_failure", "InTx       retried", "sql_40001"}},
		{"a final SQLSTATE", []string{"23505"}, "", []string{"InTx       not retried: final"}},
		{"a SQLSTATE without a name", []string{"ZZ123"}, "", []string{"SQLSTATE ZZ123\n", "InTx retries what it knows"}},
		{"a stop", []string{"maybe_applied"}, "", []string{"it may have taken effect", "IdempotencyKey"}},
		{"a whole error", []string{"task failed after 2 attempts (local retry budget exhausted): GET http://x: 503 Service Unavailable"}, "", []string{
			"stop       budget\n", "NoBudget", "docs/why.md#the-text-of-the-error",
		}},
		{"a text with a reason and its failure", []string{"failed after 3 attempts: GET http://x: 503 Service Unavailable"}, "", []string{
			"stop       attempts\n", "policy.MaxAttempts = 5\n", "\n\n503 Service Unavailable\n",
		}},
		{"a header", []string{"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"}, "", []string{"rate_limited", "its time passed"}},
		{"a category", []string{"tls_cert"}, "", []string{"a certificate is not valid", `if v.Category == "tls_cert"`, "docs/why.md#categories"}},
		{"two things of one name", []string{"timeout"}, "", []string{"policy.Timeout = time.Hour", "\n\ntimeout\n", "retryable"}},
		{"a check", []string{"lastsleep"}, "", []string{"a wait after the last attempt", "docs/retryvet.md#lastsleep"}},
		{"a failure that was cut off", []string{"failed after 3 attempts (timed out): no; attempt 3 was cut off: context deadline exceeded"}, "", []string{"stop       timeout\n"}},
		{"a status in other words", []string{"unexpected status code: 502"}, "", []string{"502 Bad Gateway\n"}},
		{"an error of MySQL", []string{"Error 1213 (40001): Deadlock found"}, "", []string{"mysql_1213", "retryable"}},
		{"a text of PostgreSQL", []string{"pq: deadlock detected"}, "", []string{"sql_40P01"}},
		{"a text of gRPC", []string{"rpc error: code = Unavailable desc = no"}, "", []string{"grpc_unavailable"}},
		{"a reply of SMTP", []string{"421 4.7.0 Try again later"}, "", []string{"reply_421", "retryable"}},
		{"a code of a service", []string{"ThrottlingException"}, "", []string{"rate_limited", "aws_ThrottlingException"}},
		{"a category of database/sql", []string{"sql_no_rows"}, "", []string{"sql.ErrNoRows", "final"}},
		{"a line of JSON", []string{`{"stop":"budget","category":"http_503"}`}, "", []string{"stop       budget\n", "503 Service Unavailable\n"}},
		{"an error without a reason", []string{"failed after 3 attempts: no"}, "", []string{"stop       attempts\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.stdin, append([]string{"why"}, tt.args...)...)
			require.Zero(t, got.code, got.stderr)
			assert.Empty(t, got.stderr)
			for _, want := range tt.want {
				assert.Contains(t, got.stdout, want)
			}
		})
	}
}

// The page shows what the command prints.
func TestWhyInDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/command.md")
	require.NoError(t, err)
	got := run(t, "", "why", "503", "-H", "Retry-After: 120")
	assert.Contains(t, string(page), "$ retry why 503 -H 'Retry-After: 120'\n"+got.stdout)
}

func TestWhyRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "nothing to explain: write an HTTP status"},
		{[]string{"700"}, "700: no HTTP status, which is from 100 to 599; an exit code is --exit 700"},
		{[]string{"it", "hurts"}, "it hurts: no text that is known here"},
		{[]string{"--exit", "0"}, "must be an exit code from 1 to 255"},
		{[]string{"--exit", "1", "503"}, "503: --exit 1 needs no other argument"},
		{[]string{"--stderr", "x"}, "--stderr: needs --exit CODE"},
		{[]string{"--exit", "1", "--profile", "git"}, "--profile git: must be one of curl, default, rsync, simple, ssh, wget"},
		{[]string{"503", "-H", "Retry-After"}, "must be a header like 'Retry-After: 120'"},
		{[]string{"io.EOF", "-H", "Retry-After: 1"}, "--header: needs an HTTP status"},
		{[]string{"503", "-n", "0"}, "max_attempts: 0: must be at least 1"},
	} {
		got := run(t, "", append([]string{"why"}, tt.args...)...)
		assert.Equal(t, 125, got.code, tt.args)
		assert.Empty(t, got.stdout, tt.args)
		assert.Contains(t, got.stderr, tt.want)
	}
}
