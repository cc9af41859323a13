package testkit

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// PgBouncer starts a pooler in front of a PostgreSQL server, which need not be there, and
// returns the address of the same database through the pooler. A connection has a server
// for as long as its transaction lasts, and waits a second for one. A search_path in the
// address is set by the pooler.
func PgBouncer(t testing.TB, to *url.URL) *url.URL {
	t.Helper()
	Needs(t, "PgBouncer")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close() // for the pooler to take
	server := fmt.Sprintf("host=%s port=%s user='%s'", to.Hostname(), to.Port(), to.User.Username())
	if password, ok := to.User.Password(); ok {
		server += " password='" + password + "'"
	}
	query := to.Query()
	if path := query.Get("search_path"); path != "" {
		query.Del("search_path")
		server += " connect_query='SET search_path TO " + path + "'"
	}
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
%s = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
query_wait_timeout = 2
server_login_retry = 0.1
`, strings.TrimPrefix(to.Path, "/"), server, address.Port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--quiet", config}
	if os.Getuid() == 0 {
		args = append(args, "--user=postgres") // it refuses to run as root
	}
	pooler := exec.CommandContext(context.WithoutCancel(t.Context()), pgBouncerPath(), args...)
	pooler.Dir = os.TempDir()
	if err := pooler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pooler.Process.Kill()
		_ = pooler.Wait() // it was killed
	})
	awaitPort(t, address.String())
	through := *to
	through.Host, through.RawQuery = address.String(), query.Encode()
	return &through
}

// pgBouncerPath finds the program, which Debian does not put into the path of every user.
func pgBouncerPath() string {
	const name = "pgbouncer"
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/usr/sbin/" + name
}

// awaitPort waits up to ten seconds for a server.
func awaitPort(t testing.TB, address string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
