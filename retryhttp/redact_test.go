package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retryhttp.Redact(nil))
	plain := fmt.Errorf("x: %w", io.EOF)
	assert.Same(t, plain, retryhttp.Redact(plain))

	err := retryhttp.Redact(&url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: context.DeadlineExceeded})
	require.EqualError(t, err, `Get "http://h/p?token=***": context deadline exceeded`)
	var e *url.Error
	require.ErrorAs(t, err, &e)
	assert.True(t, e.Timeout())
	require.ErrorIs(t, err, context.DeadlineExceeded)

	wrapped := fmt.Errorf("fetch: %w", &url.Error{Op: "Get", URL: "http://user:pass@h/p?token=t0ken", Err: io.EOF})
	err = retryhttp.Redact(wrapped)
	require.EqualError(t, err, `fetch: Get "http://h/p?token=***": EOF`)
	assert.ErrorIs(t, err, io.EOF)
}

func TestSecretsOfTheCallersOwnErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	err := retryhttp.Do(plainClient(t), atOnce(3), request(t, http.MethodGet, s.URL+"/?token=s3cret", nil), func(resp *http.Response) error {
		return errors.New("cannot decode " + resp.Request.URL.String())
	})
	require.EqualError(t, err, "cannot decode "+s.URL+"/?token=***")

	req := request(t, http.MethodPut, serve(t, status(503)).URL, strings.NewReader("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("open http://u:s3cret@h/") }
	_, err = (&retryhttp.Transport{Policy: atOnce(3)}).RoundTrip(req)
	require.ErrorContains(t, err, "open http://h/")
	assert.NotContains(t, err.Error(), "s3cret")
}
