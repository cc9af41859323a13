package classify_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

func TestClassifyConnections(t *testing.T) {
	t.Parallel()
	quiet := provoke.Serve(t, provoke.Ignore).Addr
	past := time.Now().Add(-time.Second)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), past)
	t.Cleanup(cancel)

	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"dial refused", provoke.Dial(t.Context(), &net.Dialer{}, provoke.ClosedPort(t)), canRetry("conn_refused")},
		{"GET refused", provoke.Get(t, &http.Transport{}, "http://"+provoke.ClosedPort(t)), canRetry("conn_refused")},
		{"POST refused", provoke.Post(t, &http.Transport{}, "http://"+provoke.ClosedPort(t)), canRetry("conn_refused")},
		{"dial timeout", provoke.Dial(t.Context(), &net.Dialer{Deadline: past}, quiet), canRetry("timeout")},
		{"dial under an expired context", provoke.Dial(expired, &net.Dialer{}, quiet), canRetry("timeout")},
		{"dial canceled", provoke.Dial(canceled, &net.Dialer{}, quiet), wantFinal("canceled")},
		{"dial without a port", provoke.Dial(t.Context(), &net.Dialer{}, "127.0.0.1"), wantFinal("invalid")},
		{"read after a reset", provoke.ReadAfterReset(t), mayRetry("conn_reset")},
		{"GET reset", provoke.Get(t, &http.Transport{}, provoke.Serve(t, provoke.RespondAndReset("")).URL()), mayRetry("conn_reset")},
		{"write after a close", provoke.WriteAfterClose(t), mayRetry("conn_reset")},
		{"broken pipe", provoke.BrokenPipe(t), mayRetry("conn_reset")},
		{"read past the deadline", provoke.ReadPastDeadline(t), mayRetry("timeout")},
		{"read from a closed connection", provoke.ReadFromClosed(t), mayRetry("closed")},
		{"write to a closed pipe", provoke.WriteToClosedPipe(), mayRetry("closed")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, tt.err)
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// A socket that is not there yet is like a port on which nobody listens yet.
func TestClassifyUnixSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := net.Dial("unix", filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	assertClassified(t, canRetry("no_socket"), err)
	_, err = net.Listen("unix", filepath.Join(dir, "no", "socket"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	assertClassified(t, wantFinal("not_found"), err)
	assertClassified(t, wantFinal("not_found"), &net.OpError{Op: "dial", Net: "tcp", Err: fs.ErrNotExist})
	assertClassified(t, wantFinal("permission"), &net.OpError{Op: "dial", Net: "unix", Err: fs.ErrPermission})
}

func TestClassifyTLSValues(t *testing.T) {
	t.Parallel()
	refused, internal := tls.AlertError(42), tls.AlertError(80) // what QUIC gives
	for _, tt := range []struct {
		err  error
		want retry.Verdict
	}{
		{refused, wantFinal("tls_alert")},
		{&refused, wantFinal("tls_alert")},
		{(*tls.AlertError)(nil), wantFinal("tls_alert")},
		{internal, mayRetry("tls_alert")},
		{tls.AlertError(90), mayRetry("tls_alert")}, // canceled by the user
		{&tls.ECHRejectionError{}, wantFinal("tls")},
		{tls.AlertError(20), mayRetry("tls_alert")},        // bad_record_mac
		{tls.AlertError(21), mayRetry("tls_alert")},        // decryption_failed
		{tls.AlertError(22), mayRetry("tls_alert")},        // record_overflow
		{tls.AlertError(50), mayRetry("tls_alert")},        // decode_error
		{tls.AlertError(51), wantFinal("tls_alert")},       // decrypt_error: a wrong key
		{&tls.RecordHeaderError{}, mayRetry("tls_record")}, // not the first record
		{tls.RecordHeaderError{Conn: &net.TCPConn{}}, wantFinal("tls")},
		{(*tls.RecordHeaderError)(nil), wantFinal("tls")},
		{(*tls.CertificateVerificationError)(nil), wantFinal("tls_cert")},
		{x509.SystemRootsError{}, wantFinal("tls_cert")},
		{x509.InsecureAlgorithmError(x509.MD5WithRSA), wantFinal("tls_cert")},
		{x509.ConstraintViolationError{}, wantFinal("tls_cert")},
		{x509.UnhandledCriticalExtension{}, wantFinal("tls_cert")},
		{&x509.UnknownAuthorityError{}, wantFinal("tls_cert")},
	} {
		assertVerdict(t, tt.want, retry.Classify(tt.err), "%T", tt.err)
	}
}

func TestClassifyDNS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  *net.DNSError
		want retry.Verdict
	}{
		{&net.DNSError{IsTimeout: true}, canRetry("dns")},
		{&net.DNSError{IsTemporary: true}, canRetry("dns")},
		{&net.DNSError{IsTemporary: true, IsNotFound: true}, canRetry("dns")},
		{&net.DNSError{IsNotFound: true}, wantFinal("dns_not_found")},
		{&net.DNSError{IsTemporary: true, UnwrapErr: context.Canceled}, wantFinal("canceled")},
		{&net.DNSError{IsTimeout: true, UnwrapErr: context.DeadlineExceeded}, canRetry("dns")},
		{&net.DNSError{}, abstains},
		{nil, abstains},
	} {
		assertClassified(t, tt.want, tt.err)
	}
}

func TestClassifyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	_, notExist := os.Open(filepath.Join(dir, "nothing"))
	_, notDirectory := os.Open(filepath.Join(file, "nothing"))
	_, exist := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	_, invalid := (*os.File)(nil).Read(nil)
	opened, err := os.Open(file)
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	_, closed := opened.Read(make([]byte, 1))
	_, program := exec.LookPath(filepath.Join(dir, "nothing"))

	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"not there", notExist, wantFinal("not_found")},
		{"under a file", notDirectory, wantFinal("not_found")},
		{"there already", exist, wantFinal("exists")},
		{"directory there already", os.Mkdir(dir, 0o700), wantFinal("exists")},
		{"directory not empty", os.Remove(dir), wantFinal("exists")},
		{"no file", invalid, wantFinal("invalid")},
		{"closed", closed, wantFinal("closed")},
		{"no permission", &fs.PathError{Op: "open", Path: file, Err: syscall.EACCES}, wantFinal("permission")},
		{"no program", program, wantFinal("not_found")},
		{"no program in the path", exec.CommandContext(t.Context(), "no-such-program-5ff3c98e").Run(), wantFinal("not_found")},
		{"program in the current directory", &exec.Error{Name: "x", Err: exec.ErrDot}, wantFinal("not_found")},

		{"fs.ErrNotExist", fs.ErrNotExist, wantFinal("not_found")},
		{"fs.ErrPermission", fs.ErrPermission, wantFinal("permission")},
		{"fs.ErrExist", fs.ErrExist, wantFinal("exists")},
		{"fs.ErrInvalid", fs.ErrInvalid, wantFinal("invalid")},
		{"fs.ErrClosed", fs.ErrClosed, wantFinal("closed")},
		{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded, mayRetry("timeout")},
		{"errors.ErrUnsupported", errors.ErrUnsupported, wantFinal("unsupported")},
		{"context.Canceled", context.Canceled, wantFinal("canceled")},
		{"context.DeadlineExceeded", context.DeadlineExceeded, mayRetry("timeout")},
		{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF, mayRetry("eof")},
		{"io.ErrClosedPipe", io.ErrClosedPipe, mayRetry("closed")},
		{"net.ErrClosed", net.ErrClosed, mayRetry("closed")},

		// The end of a stream is not a failure of a connection, unless it is
		// wrapped in an error of the network.
		{"io.EOF", io.EOF, abstains},
		{"io.EOF of a URL", &url.Error{Op: "Get", Err: io.EOF}, mayRetry("eof")},
		{"io.EOF of a connection", &net.OpError{Op: "read", Err: io.EOF}, mayRetry("eof")},
		{"io.EOF deep in a URL", &url.Error{Op: "Get", Err: fmt.Errorf("x: %w", io.EOF)}, mayRetry("eof")},
		{"URL within io.EOF's join", &url.Error{Op: "Get", Err: errors.Join(errNobody, io.EOF)}, mayRetry("eof")},
		{"io.EOF beside a URL", errors.Join(&url.Error{Op: "Get", Err: errNobody}, io.EOF), abstains},

		// url.Error and net.OpError ask only their direct child.
		{"timeout deep in a URL", &url.Error{Op: "Get", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}, mayRetry("timeout")},
		{"timeout deep in a dial", &net.OpError{Op: "dial", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}, canRetry("timeout")},
		{"nil URL", (*url.Error)(nil), abstains},
		{"nil operation", (*net.OpError)(nil), abstains},
		{"empty URL", &url.Error{}, abstains},
		{"empty operation", &net.OpError{}, abstains},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// TestClassifyDials checks dials that failed for an unknown reason. Nothing was
// sent, so they are retried; a known reason counts instead.
func TestClassifyDials(t *testing.T) {
	t.Parallel()
	dialing := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	hint := saysRetryAfterError(says(aWhile))
	named := retry.Extend(func(err error) retry.Verdict {
		if err == errNobody {
			return retry.Verdict{Category: "mine"}
		}
		return retry.Verdict{}
	})
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"nobody knows", dialing(errNobody), canRetry("dial")},
		{"wrapped", dialing(fmt.Errorf("tunnel: %w", errNobody)), canRetry("dial")},
		{"of a request", &url.Error{Op: "Post", Err: dialing(errNobody)}, canRetry("dial")},
		{"joined", dialing(errors.Join(errNobody, errors.New("x"))), canRetry("dial")},
		{"no reason", dialing(nil), canRetry("dial")},
		{"an unknown errno", dialing(os.NewSyscallError("connect", syscall.Errno(1<<20))), canRetry("dial")},
		{"an odd answer of DNS", dialing(&net.DNSError{}), canRetry("dial")},
		{"no opinion", dialing(saysTimeoutError(says(false))), canRetry("dial")},
		{"a dial by way of another", dialing(dialing(errNobody)), canRetry("dial")},
		{"two dials", errors.Join(dialing(errNobody), dialing(errors.New("x"))), canRetry("dial")},

		{"no such host", dialing(&net.DNSError{IsNotFound: true}), wantFinal("dns_not_found")},
		{"canceled", dialing(context.Canceled), wantFinal("canceled")},
		{"no permission", dialing(os.NewSyscallError("connect", syscall.EACCES)), wantFinal("permission")},
		{"no such socket", dialing(os.NewSyscallError("connect", syscall.ENOENT)), wantFinal("not_found")},
		{"no such network", dialing(net.UnknownNetworkError("smoke")), wantFinal("invalid")},
		{"a certificate", dialing(x509.UnknownAuthorityError{}), wantFinal("tls_cert")},
		{"refused", dialing(syscall.ECONNREFUSED), canRetry("conn_refused")},
		{"timeout", dialing(saysTimeoutError(says(true))), canRetry("timeout")},
		{"hint", dialing(hint), hinted(canLimit(""))},
		{"beneath a timeout", overTimeoutError{says(true), dialing(errNobody)}, canRetry("timeout")},
		{"beneath a refusal", overRetryableError{says(false), dialing(errNobody)}, wantFinal("permanent")},
		{"dial, and no permission", errors.Join(dialing(errNobody), fs.ErrPermission), mayRetry("dial")},
		{"dial, and reset", errors.Join(dialing(errNobody), syscall.ECONNRESET), mayRetry("conn_reset")},

		{"not a dial", &net.OpError{Op: "read", Err: errNobody}, abstains},
		{"in a read", &net.OpError{Op: "read", Err: dialing(syscall.ECONNREFUSED)}, mayRetry("conn_refused")},
		{"in a write, for no reason", &net.OpError{Op: "write", Err: dialing(nil)}, mayRetry("dial")},
		{"a lookup in a read", &net.OpError{Op: "read", Err: &net.DNSError{IsTimeout: true}}, mayRetry("dns")},
		{"a read in a dial", dialing(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), canRetry("conn_reset")},
		{"marked", dialing(retry.MarkFinal(errNobody)), wantFinal("")},
		{"given up", dialing(&retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: errNobody}), wantFinal("gave_up")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
	assert.Equal(t, retry.Verdict{Category: "mine"}, named(dialing(errNobody)), "to name an error is an opinion")
}

var (
	errNobody = errors.New("nobody knows this")
	errBoom   = errors.New("boom")
)

// TestClassifyMalformedInput makes every decoder and parser fail.
func TestClassifyMalformedInput(t *testing.T) {
	t.Parallel()
	var number struct{ N int }
	var noTarget any
	_, hexErr := hex.DecodeString("xy")
	_, base64Err := base64.StdEncoding.DecodeString("!")
	_, csvErr := csv.NewReader(strings.NewReader(`a"b`)).Read()
	_, numErr := strconv.Atoi("x")
	_, rangeErr := strconv.ParseInt("99999999999999999999", 10, 64)
	_, timeErr := time.Parse(time.RFC3339, "x")
	_, macErr := net.ParseMAC("x")
	_, _, cidrErr := net.ParseCIDR("x")
	_, _, portErr := net.SplitHostPort("x")
	parseURL := func(raw string) error {
		_, err := url.Parse(raw)
		return err
	}
	_, networkErr := (&net.Dialer{}).DialContext(t.Context(), "smoke", "127.0.0.1:1")
	_, requestErr := http.NewRequestWithContext(t.Context(), http.MethodGet, ":", http.NoBody)
	_, escapeErr := url.QueryUnescape("%zz")
	_, multipartErr := new(http.Request).MultipartReader()

	for name, err := range map[string]error{
		"json syntax": json.Unmarshal([]byte("{x"), &number),
		"json type":   json.Unmarshal([]byte(`{"N":"x"}`), &number),
		"json target": json.Unmarshal([]byte("{}"), noTarget),
		"xml syntax":  xml.Unmarshal([]byte("<a></b>"), &number),
		"xml name": xml.Unmarshal([]byte("<a/>"), &struct {
			XMLName xml.Name `xml:"b"`
		}{}),
		"hex":            hexErr,
		"base64":         base64Err,
		"csv":            csvErr,
		"number":         numErr,
		"number's range": rangeErr,
		"time":           timeErr,
		"MAC":            macErr,
		"CIDR":           cidrErr,
		"port":           portErr,
		"network":        networkErr,
		"address":        net.InvalidAddrError("x"),
		"URL's host":     parseURL("http://a b/"),
		"URL's scheme":   parseURL("://"),
		"URL's escape":   escapeErr,
		"host":           url.InvalidHostError("x"),
		"request":        requestErr,
		"multipart":      multipartErr,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, err)
			assertClassified(t, wantFinal("invalid"), err)
		})
	}
}

// TestClassifyCutInput cuts a whole text after each byte, as a connection may that nobody knows to
// be cut, and gives the pieces to decoders.
func TestClassifyCutInput(t *testing.T) {
	t.Parallel()
	type numbers struct{ N []int }
	packed := func(open func(io.Writer) io.WriteCloser) string {
		var b strings.Builder
		w := open(&b)
		_, _ = io.WriteString(w, "a text, a text, a text")
		_ = w.Close()
		return b.String()
	}
	ber, _ := asn1.Marshal([]int{1, 2, 3})
	for name, tt := range map[string]struct {
		whole  string
		decode func(string) error
	}{
		"json.Unmarshal": {`{"N":[1,2]}`, func(s string) error { return json.Unmarshal([]byte(s), new(numbers)) }},
		"json.Decoder":   {`{"N":[1,2]}`, func(s string) error { return json.NewDecoder(strings.NewReader(s)).Decode(new(numbers)) }},
		"xml":            {"<a><N>1</N></a>", func(s string) error { return xml.Unmarshal([]byte(s), new(numbers)) }},
		"asn1":           {string(ber), func(s string) error { _, err := asn1.Unmarshal([]byte(s), new([]int)); return err }},
		"gzip": {packed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), func(s string) error {
			r, err := gzip.NewReader(strings.NewReader(s))
			if err == nil {
				_, err = io.ReadAll(r)
			}
			return err
		}},
		"base64, read": {packed(func(w io.Writer) io.WriteCloser { return base64.NewEncoder(base64.StdEncoding, w) }), func(s string) error {
			_, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
			return err
		}},
		"multipart": {"--x\r\n\r\ntext\r\n--x--", func(s string) error {
			_, err := multipart.NewReader(strings.NewReader(s), "x").ReadForm(1)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NoError(t, tt.decode(tt.whole))
			for n := range tt.whole {
				err := tt.decode(tt.whole[:n])
				assert.NotEqual(t, retry.Final, retry.Classify(err).Class, "%q: %v", tt.whole[:n], err)
			}
		})
	}
	for name, err := range map[string]error{
		"json": json.Unmarshal([]byte(`{"N":`), new(numbers)), "empty json": json.Unmarshal(nil, new(numbers)),
		"xml": xml.Unmarshal([]byte("<a"), new(numbers)),
	} {
		assertVerdict(t, mayRetry("eof"), retry.Classify(err), "%s", name)
	}
}

func TestClassifyRecoveredPanics(t *testing.T) {
	t.Parallel()
	var (
		none    []int
		nothing *struct{ n int }
		nobody  any
		zero    int
	)
	for name, fn := range map[string]func(){
		"index":     func() { none[zero]++ },
		"nil":       func() { nothing.n++ },
		"divide":    func() { zero = 1 / zero },
		"assertion": func() { zero = nobody.(int) },
		"panic nil": func() { panic(nil) },
	} {
		err := provoke.Panic(fn)
		assertClassified(t, wantFinal("panic"), err)
		assertClassified(t, wantFinal("panic"), fmt.Errorf("%s: %w", name, err))
		assertClassified(t, wantFinal("panic"), &retry.PanicError{Value: err})
	}
	for _, value := range []any{"text", io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		assertClassified(t, wantFinal("panic"), &retry.PanicError{Value: value})
	}
}

// joins has pairs of joined errors.
var joins = []struct {
	name string
	a, b error
	want retry.Verdict
}{
	{"reset, and the file closed", syscall.ECONNRESET, fs.ErrClosed, mayRetry("conn_reset")},
	{
		"no IPv6, and IPv4 refused",
		&net.OpError{Op: "dial", Net: "tcp6", Err: os.NewSyscallError("socket", syscall.EAFNOSUPPORT)},
		&net.OpError{Op: "dial", Net: "tcp4", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		canRetry("conn_refused"),
	},
	{"certificate, and DNS timeout", x509.UnknownAuthorityError{}, &net.DNSError{IsTimeout: true}, mayRetry("dns")},
	{"final mark, and reset", retry.MarkFinal(errNobody), syscall.ECONNRESET, wantFinal("")},
	{"two hints", saysRetryAfterError(says(2 * time.Second)), saysRetryAfterError(says(aWhile)), hinted(mayLimit(""))},
	{
		"two marked hints",
		retry.MarkRateLimited(errNobody, 2*time.Second), retry.MarkRateLimited(errNobody, aWhile),
		hinted(canLimit("")),
	},
	{"final and rate-limited marks", retry.MarkFinal(errNobody), retry.MarkRateLimited(errNobody, aWhile), wantFinal("")},
	{"retryable and rate-limited marks", retry.MarkRetryable(errNobody), retry.MarkRateLimited(errNobody, 0), canLimit("")},
	{"marks that differ in proof", retry.MarkRetryable(errNobody), retry.Mark(errNobody, mayRetry("mine")), mayRetry("mine")},
	{"retryable mark, and final error", retry.MarkRetryable(errNobody), fs.ErrNotExist, canRetry("")},
	{"unknown mark, and final error", retry.Mark(errNobody, retry.Verdict{}), fs.ErrNotExist, markedUnknown},
	{"rate limit, and refused", saysStatusCodeError(says(429)), syscall.ECONNREFUSED, mayLimit("http_429")},
	{"rate limit, and reset", saysStatusCodeError(says(429)), syscall.ECONNRESET, mayLimit("http_429")},
	{"refused, and reset", syscall.ECONNREFUSED, syscall.ECONNRESET, mayRetry("conn_refused")},
	{"timeout, and refused", os.ErrDeadlineExceeded, syscall.ECONNREFUSED, mayRetry("conn_refused")},
	{"timeout, and no timeout", saysTimeoutError(says(true)), saysTimeoutError(says(false)), mayRetry("timeout")},
	{"two finals", fs.ErrNotExist, fs.ErrPermission, wantFinal("not_found")},
	{"deadline of another context", errNobody, context.DeadlineExceeded, mayRetry("timeout")},
	{"cancellation of another context", errNobody, context.Canceled, wantFinal("canceled")},
	{"panic, and refused", throwingError{}, syscall.ECONNREFUSED, mayRetry("conn_refused")},
	{"nil pointer, and refused", (*fs.PathError)(nil), syscall.ECONNREFUSED, mayRetry("conn_refused")},
	{"incomparable, and refused", slicedError{}, syscall.ECONNREFUSED, mayRetry("conn_refused")},
	{"nothing known", errNobody, errors.New("x"), abstains},
}

func TestJoinsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range joins {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, errors.Join(tt.a, tt.b))
			assertClassified(t, tt.want, errors.Join(tt.b, tt.a))
			assertClassified(t, tt.want, fmt.Errorf("%w (%w)", tt.b, tt.a))
			assertClassified(t, tt.want, errors.Join(errors.Join(tt.b), errors.Join(errNobody, fmt.Errorf("x: %w", tt.a))))
			assertClassified(t, tt.want, errors.Join(tt.a, tt.b, tt.a))
		})
	}
}

func TestJoinsOnAChain(t *testing.T) {
	t.Parallel()
	limit := statusHintError{says(429), says(aWhile)}
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"mark around a join", retry.MarkFinal(errors.Join(limit, syscall.ECONNRESET)), wantFinal("")},
		{"dial around a join", &net.OpError{Op: "dial", Err: errors.Join(syscall.ECONNRESET, syscall.ENETUNREACH)}, canRetry("conn_reset")},
		{"answer around a join", overRetryableError{says(false), errors.Join(limit, errNobody)}, wantFinal("permanent")},
		{"hint around a join", overHintError{says(aWhile), errors.Join(errNobody, syscall.ECONNRESET)}, hinted(mayRetry("conn_reset"))},
		{"timeout around a join", overTimeoutError{says(true), errors.Join(errNobody, fs.ErrNotExist)}, wantFinal("not_found")},
		{"timeout around a join of unknowns", overTimeoutError{says(true), errors.Join(errNobody, errNobody)}, mayRetry("timeout")},
		{"join of nothing", saysManyCausesError(nil), abstains},
		{"join with nil", saysManyCausesError{nil, syscall.ECONNREFUSED, nil}, mayRetry("conn_refused")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// saysManyCausesError may have nil among its causes, unlike errors.Join.
type saysManyCausesError []error

func (saysManyCausesError) Error() string     { return "x" }
func (e saysManyCausesError) Unwrap() []error { return e }

// TestDeadlineOfTheCaller is the same error under a context that lives and
// under one that is done.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	errMine, errCause := errors.New("mine"), errors.New("cause")
	failure := fmt.Errorf("%w: %w", errMine, context.DeadlineExceeded)
	assertClassified(t, mayRetry("timeout"), failure)

	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := (&retry.Policy{Backoff: retry.Constant(0)}).Execute(ctx, func(context.Context) error {
		calls++
		cancel(errCause)
		return failure
	})
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, retry.StopCanceled, e.Stop)
	require.ErrorIs(t, err, errCause)
	require.ErrorIs(t, err, errMine)
	assert.Equal(t, 1, calls)
}

// endlessError wraps itself.
type endlessError struct{}

func (*endlessError) Error() string   { return "endless" }
func (e *endlessError) Unwrap() error { return e }

// growingError wraps another one every time.
type growingError int

func (growingError) Error() string   { return "growing" }
func (e growingError) Unwrap() error { return e + 1 }

// branchingError joins itself with itself.
type branchingError struct{}

func (*branchingError) Error() string     { return "branching" }
func (e *branchingError) Unwrap() []error { return []error{e, e} }

// wideError joins itself with a million errors.
type wideError struct{ legs []error }

func newWideError() *wideError {
	e := &wideError{make([]error, 1e6)}
	for i := range e.legs {
		e.legs[i] = e
	}
	return e
}

func (*wideError) Error() string     { return "wide" }
func (e *wideError) Unwrap() []error { return e.legs }

// chainOf wraps err until there are so many errors.
func chainOf(length int, err error) error {
	for range length - 1 {
		err = fmt.Errorf("%w", err)
	}
	return err
}

func TestTreesWithoutEnd(t *testing.T) {
	t.Parallel()
	wide := make([]error, 5000)
	for i := range wide {
		wide[i] = syscall.ECONNREFUSED
	}
	nest := error(syscall.ECONNREFUSED)
	for range 10_000 {
		nest = saysManyCausesError{nest, errNobody}
	}
	for name, err := range map[string]error{
		"endless":       &endlessError{},
		"growing":       growingError(0),
		"branching":     &branchingError{},
		"10000 deep":    chainOf(10_000, syscall.ECONNREFUSED),
		"10000 joins":   nest,
		"5000 wide":     saysManyCausesError(wide),
		"wide and deep": newWideError(), // takes minutes if all legs are looked at
		"a known error": overTimeoutError{says(true), &endlessError{}},
	} {
		assert.Zero(t, retry.Classify(err), name)
		assert.Equal(t, wantFinal(""), retry.Classify(retry.MarkFinal(err)), name)

		// Not all errors are visited, so the visited ones depend on the order.
		for _, leg := range []error{syscall.ECONNREFUSED, retry.MarkFinal(errNobody), gaveUp(retry.StopAttempts, fs.ErrNotExist)} {
			first, last := errors.Join(leg, err), errors.Join(err, leg)
			assert.Zero(t, retry.Classify(first), name)
			assert.Zero(t, retry.Classify(last), name)
			assert.Equal(t, ofJob(first), ofJob(last), name)
		}
	}
}

func TestTreesOf1000Errors(t *testing.T) {
	t.Parallel()
	const limit = 1000
	assert.Equal(t, mayRetry("conn_refused"), retry.Classify(chainOf(limit, syscall.ECONNREFUSED)))
	assert.Zero(t, retry.Classify(chainOf(limit+1, syscall.ECONNREFUSED)))
	assert.Equal(t, canRetry(""), retry.Classify(chainOf(limit, retry.MarkRetryable(errNobody))))
	assert.Zero(t, retry.Classify(chainOf(limit+1, retry.MarkRetryable(errNobody))))

	legs := make([]error, limit-1) // and the join itself
	for i := range legs {
		legs[i] = errNobody
	}
	legs[limit-2] = syscall.ECONNREFUSED
	assert.Equal(t, mayRetry("conn_refused"), retry.Classify(errors.Join(legs...)))
	legs[limit-2] = retry.MarkRetryable(errNobody)
	assert.Equal(t, canRetry(""), retry.Classify(errors.Join(legs...)))
	assert.Zero(t, retry.Classify(errors.Join(append(legs, errNobody)...)))
}

// throwingError panics in every method that a classification may call.
type throwingError struct{}

func (throwingError) Error() string             { panic("Error") }
func (throwingError) Unwrap() error             { panic("Unwrap") }
func (throwingError) Is(error) bool             { panic("Is") }
func (throwingError) As(any) bool               { panic("As") }
func (throwingError) RetryAfter() time.Duration { panic("RetryAfter") }
func (throwingError) Retryable() bool           { panic("Retryable") }
func (throwingError) StatusCode() int           { panic("StatusCode") }
func (throwingError) Timeout() bool             { panic("Timeout") }
func (throwingError) Temporary() bool           { panic("Temporary") }
