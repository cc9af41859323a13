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

// Cluster is a PostgreSQL server of the test's own.
type Cluster struct {
	Data    string // its directory
	Address string

	log     string
	options string
	user    *syscall.SysProcAttr
}

// StartCluster starts a server with so few connections.
func StartCluster(t testing.TB, connections int) *Cluster {
	t.Helper()
	Needs(t, "PostgreSQL")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()                     // for the server to take
	dir, err := os.MkdirTemp("", "postgres") //nolint:usetesting // whose parents the server may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Cluster{
		Data: filepath.Join(dir, "data"), Address: address.String(),
		log: filepath.Join(dir, "log"), user: &syscall.SysProcAttr{},
		options: fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=%d -c unix_socket_directories=%s",
			address.Port, connections, dir),
	}
	if os.Getuid() == 0 { // it refuses to run as root
		c.user.Credential = ownedBy(t, dir, "postgres")
	}
	initdb := c.command(t, "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata="+c.Data)
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	c.Ctl(t, "start")
	t.Cleanup(func() { c.Ctl(t, "stop", "--mode=immediate") })
	return c
}

func (c *Cluster) command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), postgresProgram(program), args...)
	cmd.Dir, cmd.SysProcAttr = os.TempDir(), c.user
	return cmd
}

// Ctl starts, stops, restarts or promotes the server.
func (c *Cluster) Ctl(t testing.TB, action string, args ...string) {
	t.Helper()
	// Its output goes to a file, because the server keeps the files of pg_ctl open.
	args = append([]string{action, "--wait", "--silent", "--pgdata=" + c.Data, "--log=" + c.log, "-o", c.options}, args...)
	if err := c.command(t, "pg_ctl", args...).Run(); err != nil {
		log, _ := os.ReadFile(c.log)
		t.Fatalf("PostgreSQL: %s: %v\n%s", action, err, log)
	}
}

// Postgres starts a PostgreSQL server of the test's own with so few connections, and returns
// the address of a database for a user who is no superuser, and of the same for one who is.
func Postgres(t testing.TB, connections int) (dsn, admin string) {
	t.Helper()
	c := StartCluster(t, connections)
	address := func(user string) string {
		return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", user, c.Address)
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
