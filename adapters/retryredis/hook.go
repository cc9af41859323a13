// Package retryredis retries the commands of go-redis under a [retry.Policy]:
//
//	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
//	client.AddHook(&retryredis.Hook{
//		Policy:     policy,
//		Idempotent: func(cmd redis.Cmder) bool { return cmd.Name() == "get" },
//	})
//
// Without Idempotent, a command is sent again only if the first one was certainly not sent.
//
// MaxRetries: -1 switches off the retries of go-redis, which would multiply with these and
// repeat every command, INCR too, after a lost connection. DialerRetries: 1 does the same
// for connections, which are dialed five times for each attempt otherwise. AttemptTimeout
// needs ContextTimeoutEnabled in the redis.Options.
//
// A cluster client follows redirections itself. After a lost connection it also repeats
// every command itself, MaxRedirects times. Give the Hook to its nodes too: there the Hook
// retries nothing, but it sees what was sent, and keeps the client from repeating a command
// that is not idempotent. It cannot do so for the pipelines of a cluster client.
//
//	cluster.AddHook(hook)
//	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
package retryredis

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
)

// Hook is a [redis.Hook]. A command is retried if it is idempotent, or if it is proved to
// have had no effect: there was no connection for it, or the server refused it (LOADING,
// READONLY, CLUSTERDOWN and the like). A pipeline is retried as a whole: if all of its
// commands are idempotent, or if there was no connection. Commands with NoRetry, and
// pipelines with one, are sent once.
//
// There was no connection if a dial failed, if the client's handshake failed, or if all
// connections of the pool were in use. An error of reading or writing proves nothing,
// whatever its errno: part of the command may have been sent before it.
//
// The commands of the handshake, from HELLO to CLIENT SETINFO, are left to the client: they
// are no operations, and the Observer is not told of them. The same goes for commands of
// OnConnect within an operation, and for what a cluster client asks about the cluster.
//
// redis.Nil is a success. Other replies that say that the command was wrong are Final. The
// zero Hook is ready to use. It is safe for concurrent use, and must not be changed then.
type Hook struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// Idempotent says which commands may be repeated. nil means that none may. It must be
	// safe for concurrent use.
	Idempotent func(redis.Cmder) bool
}

var _ redis.Hook = (*Hook)(nil)

// ProcessHook implements [redis.Hook].
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.run(ctx, []redis.Cmder{cmd}, false, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.run(ctx, cmds, true, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (h *Hook) run(ctx context.Context, cmds []redis.Cmder, pipeline bool, send func(context.Context) error) error {
	if preparatory(cmds) {
		return beforehand(send(ctx))
	}
	if outer, ok := ctx.Value(inside{}).(*operation); ok {
		return outer.part(send(ctx), pipeline)
	}
	if slices.ContainsFunc(cmds, redis.Cmder.NoRetry) {
		_, err := reveal(send(ctx))
		return err
	}
	once := func(cmd redis.Cmder) bool { return h.Idempotent == nil || !h.Idempotent(cmd) }
	op := &operation{once: slices.ContainsFunc(cmds, once)}
	call := retry.Call{
		Policy: h.Policy, Unknown: retry.Final, NonIdempotent: op.once,
		Protocol: func(err error) retry.Verdict {
			v := Classify(err)
			v.NotApplied = v.NotApplied && !op.sent.Load() && refused(err, pipeline)
			return v
		},
	}
	defer call.Abort()
	for call.Next(ctx) {
		op.sent.Store(false)
		unsent, err := reveal(send(context.WithValue(call.Context(), inside{}, op)))
		if err == nil || !unsent && errors.Is(err, redis.Nil) { // Nil of a sentinel means no master
			call.End(nil)
			return err
		}
		v := call.Verdict(err)
		if unsent {
			v.NotApplied = !op.sent.Load()
		} else if pipeline && isReply(err) {
			v.NotApplied = false // the server has answered one command, and may have run others
		}
		call.EndVerdict(err, v)
	}
	err := call.Err()
	for _, cmd := range cmds {
		if pipeline && (cmd.Err() == nil && call.Attempt() == 0 || isFailure(cmd.Err())) { // it was not sent, and has no result
			cmd.SetErr(err)
		}
	}
	return err
}

// Classify judges the errors of go-redis. It is [retry.Classify] with what Redis answers,
// and with what the client says if all of its connections are in use.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(func(err error) retry.Verdict {
	if errors.Is(err, redis.ErrPoolTimeout) {
		return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "redis_pool_timeout"}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // asked about every error of the tree
		return retry.Verdict{Class: retry.Retryable, Category: "eof"}
	}
	if _, ok := err.(redis.Error); !ok { //nolint:errorlint // asked about every error of the tree
		return retry.Verdict{}
	}
	if v := retry.Classify(err); v.Class != retry.Unknown {
		return v
	}
	return retry.Verdict{Class: retry.Final, Category: "redis"}
})
