//go:build unix

package testkit

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// MariaDB starts a server of the test's own, and returns its address. root has no password.
func MariaDB(t testing.TB) (address string) {
	t.Helper()
	Needs(t, "MariaDB")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()                    // for the server to take
	dir, err := os.MkdirTemp("", "mariadb") //nolint:usetesting // whose parents the server may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // it refuses to run as root
		as.Credential = ownedBy(t, dir, "mysql")
	}
	command := func(name string, args ...string) *exec.Cmd {
		args = append([]string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data")}, args...)
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		cmd.Env = append(os.Environ(), "TMPDIR="+dir) // where a server that starts removes the tables of others
		return cmd
	}
	if out, err := command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	_, port, _ := net.SplitHostPort(address)
	server := command("mariadbd", "--bind-address=127.0.0.1", "--port="+port, "--socket="+filepath.Join(dir, "socket"))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatalf("mariadbd: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 600 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	t.Fatalf("mariadbd: no answer at %s\n%s", address, text)
	return ""
}
