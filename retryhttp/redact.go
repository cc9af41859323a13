package retryhttp

import (
	"net/url"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/redact"
)

// Redact returns an error without the secrets that [http.Client] puts into the
// text of its errors: the user, the password and the query values of a URL, and of
// a Location that was not followed. A [*url.Error] stays a *url.Error. errors.Is
// and errors.As find the same errors as before; those wrapped errors keep their
// texts. A [Transport] and [Do] redact their errors, but an http.Client wraps the
// errors of a Transport in its own. A server can make a text as long as it likes: of more
// than 64 KiB, only a part of the first 64 KiB is kept. Redact(nil) is nil.
func Redact(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*url.Error); ok && e != nil { //nolint:errorlint // http.Client's own
		return &url.Error{Op: e.Op, URL: redact.Text(e.URL), Err: Redact(e.Err)}
	}
	text, _ := errtree.Try(err.Error)
	if shown := redact.Text(text); shown != text {
		return &redactedError{shown, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }
