package retry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
)

func TestClassifyConnections(t *testing.T) {
	t.Parallel()
	quiet := serve(t, silent)
	past := time.Now().Add(-time.Second)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), past)
	t.Cleanup(cancel)

	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"dial refused", dialError(t.Context(), &net.Dialer{}, closedPort(t)), canRetry("conn_refused")},
		{"GET refused", get(t, &http.Transport{}, "http://"+closedPort(t)), canRetry("conn_refused")},
		{"POST refused", post(t, &http.Transport{}, "http://"+closedPort(t)), canRetry("conn_refused")},
		{"dial timeout", dialError(t.Context(), &net.Dialer{Deadline: past}, quiet), canRetry("timeout")},
		{"dial under an expired context", dialError(expired, &net.Dialer{}, quiet), canRetry("timeout")},
		{"dial canceled", dialError(canceled, &net.Dialer{}, quiet), wantFinal("canceled")},
		{"dial without a port", dialError(t.Context(), &net.Dialer{}, "127.0.0.1"), wantFinal("invalid")},
		{"read after a reset", readAfterReset(t), mayRetry("conn_reset")},
		{"GET reset", get(t, &http.Transport{}, "http://"+serve(t, resetting)), mayRetry("conn_reset")},
		{"write after a close", writeAfterClose(t), mayRetry("conn_reset")},
		{"broken pipe", brokenPipe(t), mayRetry("conn_reset")},
		{"read past the deadline", readPastDeadline(t), mayRetry("timeout")},
		{"read from a closed connection", readFromClosed(t), mayRetry("closed")},
		{"write to a closed pipe", writeToClosedPipe(), mayRetry("closed")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, tt.err)
			assertClassified(t, tt.want, tt.err)
		})
	}
}

func TestClassifyHTTPResponses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, reply string
		want        retry.Verdict
	}{
		{"none", "", mayRetry("eof")},
		{"cut by length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", mayRetry("eof")},
		{"cut in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", mayRetry("eof")},
		{"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", mayRetry("eof")},
		{"cut in the header", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", mayRetry("eof")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address := "http://" + serve(t, answering(tt.reply))
			assertClassified(t, tt.want, get(t, &http.Transport{}, address))
			assertClassified(t, tt.want, get(t, &http.Transport{DisableKeepAlives: true}, address))
		})
	}
}

// TestClassifyTimeouts is about timeouts that look like the caller's context
// and are not.
func TestClassifyTimeouts(t *testing.T) {
	t.Parallel()
	address := serve(t, silent)
	deadline, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	impatient := &http.Client{Transport: &http.Transport{}, Timeout: soon}

	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"Client.Timeout", do(t.Context(), t, impatient, "http://"+address), mayRetry("timeout")},
		{
			"ResponseHeaderTimeout",
			get(t, &http.Transport{ResponseHeaderTimeout: soon}, "http://"+address),
			mayRetry("timeout"),
		},
		{
			"TLSHandshakeTimeout",
			get(t, &http.Transport{TLSHandshakeTimeout: soon}, "https://"+address),
			canRetry("timeout"),
		},
		{
			"deadline of another context",
			do(deadline, t, &http.Client{Transport: &http.Transport{}}, "http://"+address),
			mayRetry("timeout"),
		},
		{
			"cancellation of another context",
			do(canceled, t, &http.Client{Transport: &http.Transport{}}, "http://"+address),
			wantFinal("canceled"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, tt.err)
			assertClassified(t, tt.want, tt.err)
		})
	}
}

func TestClassifyTLS(t *testing.T) {
	t.Parallel()
	server, trusting := serveTLS(t, nil)
	address := server.Listener.Addr().String()
	with := func(change func(*tls.Config)) *tls.Config {
		config := trusting.Clone()
		change(config)
		return config
	}
	certificates := map[string]*tls.Config{
		"unknown authority": with(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }),
		"another host":      with(func(c *tls.Config) { c.ServerName = "host.example" }),
		"expired":           with(func(c *tls.Config) { c.Time = func() time.Time { return time.Unix(1<<33, 0) } }),
		"not yet valid":     with(func(c *tls.Config) { c.Time = func() time.Time { return time.Unix(-1, 0) } }),
	}
	for name, config := range certificates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := get(t, &http.Transport{TLSClientConfig: config}, server.URL)
			var verification *tls.CertificateVerificationError
			require.ErrorAs(t, err, &verification)
			assertClassified(t, wantFinal("tls_cert"), err)
			assertClassified(t, wantFinal("tls_cert"), verification.Err)
			assertClassified(t, wantFinal("tls_cert"), shakeHands(t, address, config))
		})
	}
	t.Run("no common version", func(t *testing.T) {
		t.Parallel()
		server, client := serveTLS(t, &tls.Config{MinVersion: tls.VersionTLS13})
		client.MaxVersion = tls.VersionTLS12
		err := get(t, &http.Transport{TLSClientConfig: client}, server.URL)
		assert.ErrorContains(t, err, "remote error")
		assertClassified(t, wantFinal("tls_alert"), err)
	})
	t.Run("client certificate required", func(t *testing.T) {
		t.Parallel()
		server, client := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
		err := shakeHands(t, server.Listener.Addr().String(), client)
		assert.ErrorContains(t, err, "remote error")
		assertClassified(t, wantFinal("tls_alert"), err)
	})
	t.Run("internal error of the server", func(t *testing.T) {
		t.Parallel()
		server, client := serveTLS(t, &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("busy") },
		})
		err := get(t, &http.Transport{TLSClientConfig: client}, server.URL)
		assert.ErrorContains(t, err, "remote error")
		assertClassified(t, mayRetry("tls_alert"), err)
	})
	t.Run("no TLS", func(t *testing.T) {
		t.Parallel()
		plain := serve(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\n") })
		err := shakeHands(t, plain, trusting)
		var header tls.RecordHeaderError
		require.ErrorAs(t, err, &header)
		assertClassified(t, wantFinal("tls"), err)
	})
}

func TestClassifyTLSValues(t *testing.T) {
	t.Parallel()
	refused, internal := tls.AlertError(42), tls.AlertError(80) // what QUIC gives
	tests := []struct {
		err  error
		want retry.Verdict
	}{
		{refused, wantFinal("tls_alert")},
		{&refused, wantFinal("tls_alert")},
		{(*tls.AlertError)(nil), wantFinal("tls_alert")},
		{internal, mayRetry("tls_alert")},
		{tls.AlertError(90), mayRetry("tls_alert")}, // canceled by the user
		{&tls.ECHRejectionError{}, wantFinal("tls")},
		{&tls.RecordHeaderError{}, wantFinal("tls")},
		{(*tls.CertificateVerificationError)(nil), wantFinal("tls_cert")},
		{x509.SystemRootsError{}, wantFinal("tls_cert")},
		{x509.InsecureAlgorithmError(x509.MD5WithRSA), wantFinal("tls_cert")},
		{x509.ConstraintViolationError{}, wantFinal("tls_cert")},
		{x509.UnhandledCriticalExtension{}, wantFinal("tls_cert")},
		{&x509.UnknownAuthorityError{}, wantFinal("tls_cert")},
	}
	for _, tt := range tests {
		assertVerdict(t, tt.want, retry.Classify(tt.err), "%T", tt.err)
	}
}

func TestClassifyDNS(t *testing.T) {
	t.Parallel()
	silence := func([]byte) []byte { return nil }

	t.Run("no such name", func(t *testing.T) {
		t.Parallel()
		const noSuchName = 3
		r := resolver(t, rcode(noSuchName))
		assertClassified(t, wantFinal("dns_not_found"), lookup(t.Context(), r))
		assertClassified(t, wantFinal("dns_not_found"),
			dialError(t.Context(), &net.Dialer{Resolver: r}, "host.example.:80"))
		assertClassified(t, wantFinal("dns_not_found"),
			get(t, &http.Transport{DialContext: (&net.Dialer{Resolver: r}).DialContext}, "http://host.example./"))
	})
	t.Run("server failure", func(t *testing.T) {
		t.Parallel()
		const serverFailure = 2
		r := resolver(t, rcode(serverFailure))
		assertClassified(t, canRetry("dns"), lookup(t.Context(), r))
		assertClassified(t, canRetry("dns"),
			dialError(t.Context(), &net.Dialer{Resolver: r}, "host.example.:80"))
		assertClassified(t, canRetry("dns"),
			post(t, &http.Transport{DialContext: (&net.Dialer{Resolver: r}).DialContext}, "http://host.example./"))
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		assertClassified(t, canRetry("dns"), lookup(ctx, resolver(t, silence)))
	})
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		err := lookup(ctx, resolver(t, func([]byte) []byte { cancel(); return nil }))
		require.ErrorIs(t, err, context.Canceled)
		assertClassified(t, wantFinal("canceled"), err)
	})

	values := []struct {
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
	}
	for _, tt := range values {
		assertClassified(t, tt.want, tt.err)
	}
}

func TestClassifyHTTP2Resets(t *testing.T) {
	t.Parallel()
	ok := []byte{0x88} // HPACK for ":status: 200"
	tests := []struct {
		name    string
		code    uint32
		headers []byte
		want    retry.Verdict
	}{
		{"INTERNAL_ERROR", 0x2, nil, mayRetry("http2_reset")},
		{"FLOW_CONTROL_ERROR", 0x3, nil, mayRetry("http2_reset")},
		{"CANCEL", 0x8, nil, mayRetry("http2_reset")},
		{"ENHANCE_YOUR_CALM", 0xb, nil, mayLimit("http2_calm")},
		{"HTTP_1_1_REQUIRED", 0xd, nil, canRetry("http2_refused")},
		{"COMPRESSION_ERROR", 0x9, nil, abstains},
		{"INTERNAL_ERROR in the body", 0x2, ok, mayRetry("http2_reset")},

		// Before the header net/http would send the request again for a minute.
		{"REFUSED_STREAM in the body", 0x7, ok, canRetry("http2_refused")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := get(t, speakHTTP2(), "http://"+serveHTTP2(t, tt.headers, tt.code))
			require.ErrorContains(t, err, "stream error")
			assertClassified(t, tt.want, err)
		})
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

	tests := []struct {
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

		// The end of a stream is no failure of a connection, unless the error
		// around it is one of the network.
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// TestClassifyDials is about dials that failed for a reason that nobody knows.
// Nothing was sent, so they are retried; a reason that is known counts instead.
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
	tests := []struct {
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
		{"marked", dialing(retry.MarkFinal(errNobody)), wantFinal("")},
		{"given up", dialing(&retry.Error{Attempts: 3, Stop: retry.StopAttempts, Err: errNobody}), wantFinal("gave_up")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
	assert.Equal(t, retry.Verdict{Category: "mine"}, named(dialing(errNobody)), "to name an error is an opinion")
}

var errNobody = errors.New("nobody knows this")

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

	tests := map[string]error{
		"json syntax": json.Unmarshal([]byte("{"), &number),
		"json type":   json.Unmarshal([]byte(`{"N":"x"}`), &number),
		"json target": json.Unmarshal([]byte("{}"), noTarget),
		"xml syntax":  xml.Unmarshal([]byte("<a>"), &number),
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
	}
	for name, err := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, err)
			assertClassified(t, wantFinal("invalid"), err)
		})
	}

	// A decoder that reads from a connection knows that its input was cut;
	// json.Unmarshal does not.
	cut := json.NewDecoder(bytes.NewReader([]byte(`{"N":`))).Decode(&number)
	assertClassified(t, mayRetry("eof"), cut)
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
		err := recovered(fn)
		assertClassified(t, wantFinal("panic"), err)
		assertClassified(t, wantFinal("panic"), fmt.Errorf("%s: %w", name, err))
	}
}

// TestClassifyNeverByText is T-58.
func TestClassifyNeverByText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "timeout", "i/o timeout", "connection refused", "connection reset by peer", "EOF", "unexpected EOF",
		"too many requests", "rate limit exceeded", "HTTP 503 Service Unavailable", "permission denied",
		"context canceled", "database is locked", "x509: certificate signed by unknown authority",
		"rpc error: code = Unavailable desc = x", "no such host", "deadlock detected (SQLSTATE 40P01)",
		"retry: attempts exhausted", "retry: worker lost",
	} {
		assertClassified(t, abstains, errors.New(text))
	}
}
