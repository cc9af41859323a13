package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, crashWorker) }

// The demonstration shows the timeline of section 12, and ends.
//
//nolint:paralleltest // it is in a hurry: a timeout of its tasks lasts 600 ms
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-second", "20ms"}, &out))
	text := out.String()
	for _, want := range []string{
		`msg="Import Data" status=Running attempt=0`,
		`msg="Import Data" status=RetryPending attempt=1 delay=10s error="timeout: no word for 30 s"`,
		`msg="Import Data" status=Pending attempt=1`,
		`msg="Import Data" status=RetryPending attempt=2 delay=20s`,
		`msg="Import Data" status=Success attempt=2`,
		`msg=Index status=RetryPending attempt=1 delay=5s error="webhook_failure: `,
		`msg=Publish status=RetryPending attempt=1 delay=5s error="explicit: no space left"`,
		`msg=Publish status=Failure attempt=2 stop=attempts`,
		`msg=Announce status=Failure attempt=0`,
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "level=")
}

// The service serves until it is interrupted.
func TestServe(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		err := run(ctx, []string{"-serve", "-second", "10ms"}, writer)
		assert.ErrorIs(t, err, context.Canceled)
		_ = writer.Close()
	})
	defer wg.Wait()
	defer stop()
	line := make([]byte, 100)
	n, err := reader.Read(line)
	require.NoError(t, err)
	resp, err := http.Get(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	stop()
	rest, err := io.ReadAll(reader)
	assert.NoError(t, err)
	assert.NotContains(t, string(rest), "error")
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"-dsn=mysql://x":   "open database: ",
		"-second=-1s":      "-second: -1s: must be positive",
		"-address=nowhere": "nowhere",
	} {
		err := run(t.Context(), []string{arg}, io.Discard)
		assert.ErrorContains(t, err, want)
		assert.NotErrorIs(t, err, context.Canceled)
	}
}
