//go:build unix

package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Postgres starts a PostgreSQL server of the test's own with so few connections, and returns
// the address of a database for a user who is no superuser, and of the same for one who is.
func Postgres(t testing.TB, connections int) (dsn, admin string) {
	t.Helper()
	Needs(t, "PostgreSQL")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()                     // for the server to take
	dir, err := os.MkdirTemp("", "postgres") //nolint:usetesting // whose parents the server may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ours := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // it refuses to run as root
		ours.Credential = ownedBy(t, dir, "postgres")
	}
	start := func(program string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), postgresProgram(program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, ours
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := start("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata="+data).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	// Its output goes to a file, because the server keeps the files of pg_ctl open.
	server := start("pg_ctl", "start", "--wait", "--silent", "--pgdata="+data, "--log="+filepath.Join(dir, "log"), "-o",
		fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=%d -c unix_socket_directories=%s",
			port, connections, dir))
	if err := server.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("PostgreSQL: %v\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := start("pg_ctl", "stop", "--silent", "--mode=immediate", "--pgdata="+data).Run(); err != nil {
			t.Error(err)
		}
	})
	address := func(user string) string {
		return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", user, port)
	}
	return address("app"), address("postgres")
}

// ownedBy gives a directory to a user, and returns how to run programs as that user.
func ownedBy(t testing.TB, dir, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// postgresProgram finds a program of the server, which Debian puts into no path.
func postgresProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(all) > 0 {
		return all[len(all)-1]
	}
	return name
}
