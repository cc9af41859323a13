package cli_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlayground: the command shows the page, and answers what it asks.
func TestPlayground(t *testing.T) {
	t.Parallel()
	cmd := command(t, "playground", "--listen", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		assert.NoError(t, cmd.Process.Kill())
		assert.Error(t, cmd.Wait())
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	address = strings.TrimSpace(address)

	send := func(method, path, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, send(http.MethodGet, "/", ""), "<title>retry: playground</title>")
	for _, file := range []string{"/style.css", "/app.js", "/pictures.js", "/library.js", "/vendor/uPlot.iife.min.js", "/vendor/js-yaml.umd.min.js"} {
		assert.NotEmpty(t, send(http.MethodGet, file, ""))
	}
	assert.Contains(t, send(http.MethodPost, "/ask", `["plan", "{\"max_attempts\": 2}"]`), `"text":"2 attempts`)

	got := run(t, "", "playground", "--listen", strings.TrimPrefix(address, "http://"))
	assert.Equal(t, 125, got.code)
	assert.Contains(t, got.stderr, "address already in use")
	assert.Equal(t, 125, run(t, "", "playground", "x").code)
}
