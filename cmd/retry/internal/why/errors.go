package why

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/seed-5ff3c98e/retry"
)

// named is an error with the names that it is asked for.
type named struct {
	names []string // the first is shown
	err   error
}

// known has common errors, by what a reader would look for.
var known = []named{
	{[]string{"connection refused", "syscall.ECONNREFUSED"}, dial(syscall.ECONNREFUSED)},
	{[]string{"connection reset by peer", "syscall.ECONNRESET"}, read(syscall.ECONNRESET)},
	{[]string{"broken pipe", "syscall.EPIPE"}, read(syscall.EPIPE)},
	{[]string{"connection timed out", "syscall.ETIMEDOUT"}, dial(syscall.ETIMEDOUT)},
	{[]string{"no route to host", "syscall.EHOSTUNREACH"}, dial(syscall.EHOSTUNREACH)},
	{[]string{"network is unreachable", "syscall.ENETUNREACH"}, dial(syscall.ENETUNREACH)},
	{[]string{"io.EOF"}, io.EOF},
	{[]string{"io.ErrUnexpectedEOF", "unexpected EOF"}, io.ErrUnexpectedEOF},
	{[]string{"net.ErrClosed", "use of closed network connection"}, net.ErrClosed},
	{[]string{"os.ErrDeadlineExceeded", "i/o timeout"}, os.ErrDeadlineExceeded},
	{[]string{"context.DeadlineExceeded, not of your context", "context.DeadlineExceeded"}, context.DeadlineExceeded},
	{[]string{"context.Canceled, not of your context", "context.Canceled"}, context.Canceled},

	{[]string{"net.DNSError: no such host", "net.DNSError", "no such host"}, &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}},
	{[]string{"net.DNSError: temporary", "server misbehaving", "temporary failure in name resolution"}, &net.DNSError{Err: "server misbehaving", IsTemporary: true}},
	{[]string{"x509.UnknownAuthorityError", "certificate signed by unknown authority"}, x509.UnknownAuthorityError{}},
	{[]string{"tls.CertificateVerificationError", "failed to verify certificate"}, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
	{[]string{"tls.RecordHeaderError", "first record does not look like a TLS handshake"}, tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}},
	{[]string{"http.ErrSchemeMismatch", "server gave HTTP response to HTTPS client"}, http.ErrSchemeMismatch},
	{[]string{"http.ErrServerClosed"}, http.ErrServerClosed},

	{[]string{"fs.ErrNotExist", "os.ErrNotExist", "no such file or directory"}, fs.ErrNotExist},
	{[]string{"fs.ErrPermission", "os.ErrPermission", "permission denied"}, fs.ErrPermission},
	{[]string{"no space left on device", "syscall.ENOSPC"}, syscall.ENOSPC},
	{[]string{"too many open files", "syscall.EMFILE"}, syscall.EMFILE},
	{[]string{"resource temporarily unavailable", "syscall.EAGAIN"}, syscall.EAGAIN},
	{[]string{"exec.ErrNotFound", "executable file not found"}, exec.ErrNotFound},
	{[]string{"json.SyntaxError"}, syntaxError("x")},
	{[]string{"json.SyntaxError of a text that ends too early", "unexpected end of JSON input"}, syntaxError("{")},
	{[]string{"strconv.NumError"}, &strconv.NumError{Func: "Atoi", Num: "x", Err: strconv.ErrSyntax}},

	{[]string{"sql.ErrNoRows", "no rows in result set"}, sql.ErrNoRows},
	{[]string{"sql.ErrTxDone"}, sql.ErrTxDone},
	{[]string{"sql.ErrConnDone"}, sql.ErrConnDone},
	{[]string{"driver.ErrBadConn", "bad connection"}, driver.ErrBadConn},

	{[]string{"retry.Error of an inner policy", "retry.Error"}, &retry.Error{Stop: retry.StopAttempts, Attempts: 3, Err: errOther}},
	{[]string{"retry.PanicError"}, &retry.PanicError{Value: "x"}},
	{[]string{"retry.ErrLost"}, retry.ErrLost},
	{[]string{"errors.New, and any type that nothing is known of", "errors.New", "errors.errorString", "fmt.wrapError"}, errOther},

	{[]string{"gRPC CANCELLED", "codes.Canceled"}, grpcError(1)},
	{[]string{"gRPC UNKNOWN", "codes.Unknown"}, grpcError(2)},
	{[]string{"gRPC INVALID_ARGUMENT", "codes.InvalidArgument"}, grpcError(3)},
	{[]string{"gRPC DEADLINE_EXCEEDED", "codes.DeadlineExceeded"}, grpcError(4)},
	{[]string{"gRPC NOT_FOUND", "codes.NotFound"}, grpcError(5)},
	{[]string{"gRPC ALREADY_EXISTS", "codes.AlreadyExists"}, grpcError(6)},
	{[]string{"gRPC PERMISSION_DENIED", "codes.PermissionDenied"}, grpcError(7)},
	{[]string{"gRPC RESOURCE_EXHAUSTED", "codes.ResourceExhausted"}, grpcError(8)},
	{[]string{"gRPC FAILED_PRECONDITION", "codes.FailedPrecondition"}, grpcError(9)},
	{[]string{"gRPC ABORTED", "codes.Aborted"}, grpcError(10)},
	{[]string{"gRPC OUT_OF_RANGE", "codes.OutOfRange"}, grpcError(11)},
	{[]string{"gRPC UNIMPLEMENTED", "codes.Unimplemented"}, grpcError(12)},
	{[]string{"gRPC INTERNAL", "codes.Internal"}, grpcError(13)},
	{[]string{"gRPC UNAVAILABLE", "codes.Unavailable"}, grpcError(14)},
	{[]string{"gRPC DATA_LOSS", "codes.DataLoss"}, grpcError(15)},
	{[]string{"gRPC UNAUTHENTICATED", "codes.Unauthenticated"}, grpcError(16)},
}

var errOther = errors.New("some error")

func dial(errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
}

func read(errno syscall.Errno) error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", errno)}
}

func syntaxError(in string) error { return json.Unmarshal([]byte(in), new(struct{})) }

// grpcError has the method by which an error of gRPC is known.
type grpcError uint32

func (c grpcError) Error() string          { return fmt.Sprintf("rpc error: code = %d", uint32(c)) }
func (c grpcError) GRPCStatus() grpcStatus { return grpcStatus(c) }

type grpcStatus uint32

// Code returns the code.
func (s grpcStatus) Code() uint32 { return uint32(s) }

// sqlStateError has the method by which the errors of PostgreSQL's drivers are known.
type sqlStateError string

func (s sqlStateError) Error() string    { return "SQLSTATE " + string(s) }
func (s sqlStateError) SQLState() string { return string(s) }

// state is a SQLSTATE with the name that PostgreSQL gives it.
type state struct{ code, name string }

// states has the codes that programs meet.
var states = []state{
	{"40001", "serialization_failure"},
	{"40P01", "deadlock_detected"},
	{"55P03", "lock_not_available"},
	{"08000", "connection_exception"},
	{"08006", "connection_failure"},
	{"53300", "too_many_connections"},
	{"53200", "out_of_memory"},
	{"53100", "disk_full"},
	{"57P01", "admin_shutdown"},
	{"57P03", "cannot_connect_now"},
	{"57014", "query_canceled"},
	{"25006", "read_only_sql_transaction"},
	{"25P02", "in_failed_sql_transaction"},
	{"23505", "unique_violation"},
	{"23503", "foreign_key_violation"},
	{"22001", "string_data_right_truncation"},
	{"42601", "syntax_error"},
	{"42P01", "undefined_table"},
	{"42501", "insufficient_privilege"},
	{"28P01", "invalid_password"},
	{"3D000", "invalid_catalog_name"},
	{"P0001", "raise_exception"},
	{"XX000", "internal_error"},
}

// shape is how errors of clients are read that have no name here.
type shape struct{ ends, read string }

// shapes are types of clients, by the end of their names, and how they are read.
var shapes = []shape{
	{"pgconn.PgError", "its method SQLState: retry why 40001"},
	{"pq.Error", "its method SQLState: retry why 40001"},
	{"mysql.MySQLError", "its Number, by retrysql.Classify: deadlocks and lock waits are retryable"},
	{"sqlite.Error", "its code, by retrysql.Classify: BUSY and LOCKED are retryable"},
	{"sqlite3.Error", "its code, by retrysql.Classify: BUSY and LOCKED are retryable"},
	{"mssql.Error", "its Number, by retrysql.Classify"},
	{"status.Error", "its method GRPCStatus: retry why codes.Unavailable"},
	{"connect.Error", "its code, which is one of gRPC: retry why codes.Unavailable"},
	{"exec.ExitError", "the exit code and standard error, by retryexec: retry why --exit 1 --stderr 'connection refused'"},
	{"retryhttp.StatusError", "the status: retry why 503"},
	{"googleapi.Error", "the status in its field Code: retry why 503"},
	{"azcore.ResponseError", "the status in its field StatusCode: retry why 503"},
	{"openai.Error", "the status in its field StatusCode: retry why 503"},
	{"anthropic.Error", "the status in its field StatusCode: retry why 503"},
	{"github.ErrorResponse", "the status of its field Response: retry why 503"},
	{"url.Error", "the error that it wraps: retry why io.EOF"},
	{"net.OpError", "the error that it wraps: retry why ECONNRESET"},
	{"os.SyscallError", "the error that it wraps: retry why ECONNRESET"},
	{"fs.PathError", "the error that it wraps: retry why fs.ErrNotExist"},
}

// inHTTP is an error as an http.Client returns it.
func inHTTP(err error) error { return &url.Error{Op: "Get", URL: "http://host/", Err: err} }
