package retryhttp

import (
	"net/url"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/redact"
)

// Redact returns an error without the secrets that [http.Client] puts into the
// text of its errors: the user and the password of a URL, the values of its query,
// and those of a Location that was not followed. A [*url.Error] stays one, and
// errors.Is and errors.As find what they found, where the errors that are wrapped
// still have the text that they had. A [Transport] and [Do] do this with their
// errors, but an http.Client puts its own around those of a Transport.
// Redact(nil) is nil.
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
