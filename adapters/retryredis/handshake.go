package retryredis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// DialHook implements [redis.Hook]. It notes which errors are those of a dial.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			err = &failure{error: err, unsent: true}
		}
		return conn, err
	}
}

// preparatory reports whether commands do nothing but prepare a connection, or ask about
// the cluster. The client sends them through its hooks on its own account, mostly before
// the first command on a connection.
func preparatory(cmds []redis.Cmder) bool {
	for _, cmd := range cmds {
		prepares := false
		switch cmd.Name() {
		case "hello", "auth", "select", "readonly", "readwrite", "asking":
			prepares = true
		case "client":
			prepares = slices.Contains([]string{"setname", "setinfo", "tracking", "maint_notifications"}, subcommand(cmd))
		case "cluster":
			prepares = subcommand(cmd) == "slots"
		case "command":
			prepares = len(cmd.Args()) == 1
		}
		if !prepares {
			return false
		}
	}
	return true
}

func subcommand(cmd redis.Cmder) string {
	if args := cmd.Args(); len(args) > 1 {
		name, _ := args[1].(string)
		return strings.ToLower(name)
	}
	return ""
}

// failure is an error on its way through the client, to the operation that it ends.
type failure struct {
	error

	unsent bool // it came before the first byte of a command
	opaque bool // the client is not to act on the cause
}

// Unwrap returns a slice because the client takes the outermost error off the error of a
// handshake with [errors.Unwrap].
func (f *failure) Unwrap() []error {
	if f.opaque {
		return nil
	}
	return []error{f.error}
}

// beforehand returns the error of a command that prepares a connection as a failure before
// the first byte of the command that the connection is for.
//
// The client takes each reply to HELLO for that of a server too old to know it, and goes
// on. After "max number of clients" the server has closed the connection, so that reply is
// kept from the client.
func beforehand(err error) error {
	full := redis.IsMaxClientsError(err)
	if err == nil || isReply(err) && !full {
		return err
	}
	return &failure{error: err, unsent: true, opaque: full}
}

// reveal returns the error that a failure is about.
func reveal(err error) (unsent bool, cause error) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.unsent, f.error
	}
	return false, err
}

func isFailure(err error) bool {
	_, ok := errors.AsType[*failure](err)
	return ok
}

func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// refused reports whether an error proves that commands had no effect: there was no
// connection for them, or the server's answer to a single one says so.
func refused(err error, pipeline bool) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || !pipeline && isReply(err) && Classify(err).NotApplied
}

// inside is the key of the operation in the context of its commands.
type inside struct{}

// operation is an operation in progress.
type operation struct {
	once bool        // it must not be repeated blindly
	sent atomic.Bool // a part of it was sent to a node, and was not refused
}

// part is told how a part of the operation ended at a node of a cluster. It returns the
// error for the cluster client, which would repeat the part after a lost connection.
func (op *operation) part(err error, pipeline bool) error {
	if unsent, _ := reveal(err); unsent || refused(err, pipeline) {
		return err
	}
	op.sent.Store(true)
	if err == nil || isReply(err) || !op.once {
		return err
	}
	return &failure{error: err, opaque: true}
}
