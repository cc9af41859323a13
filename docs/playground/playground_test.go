package playground_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/docs/playground"
)

// get returns what a handler sends, and the number of its bytes.
func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestBuild: the page that is built has all that it names, and goes over the wire in 2 MB.
func TestBuild(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	require.NoError(t, playground.Build(t.Context(), dir))
	files, total := playground.Files(dir), 0
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "index.html" {
			return err
		}
		w := get(t, files, "/"+path, "Accept-Encoding", "gzip")
		assert.Equal(t, http.StatusOK, w.Code, path)
		total += w.Body.Len()
		return nil
	}))
	index := get(t, files, "/")
	total += index.Body.Len()
	assert.Less(t, total, 2_000_000)
	assert.Greater(t, total, 500_000)
	t.Logf("%.2f MB over the wire", float64(total)/1e6)
	for _, part := range strings.Split(index.Body.String(), `src="`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		assert.FileExists(t, filepath.Join(dir, name))
	}
	assert.Contains(t, get(t, files, "/library.js").Body.String()[:200], "Go Authors", "to who takes nothing compressed")
	assert.Equal(t, http.StatusNotFound, get(t, playground.Files(t.TempDir()), "/library.js", "Accept-Encoding", "gzip").Code)
}

// TestHandler: the page without WebAssembly asks the command that shows it.
func TestHandler(t *testing.T) {
	t.Parallel()
	h := playground.Handler()
	assert.Contains(t, get(t, h, "/").Body.String(), "<title>retry: playground</title>")
	assert.Contains(t, get(t, h, "/library.js").Body.String(), `fetch("ask"`)
	ask := func(question string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/ask", strings.NewReader(question))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	w := ask(`["plan", "{\"max_attempts\": 0}"]`)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `"error":"retry: invalid policy: max_attempts: 0: must be at least 1`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, ask(strings.Repeat(" ", 2<<20)).Code)
	assert.Equal(t, http.StatusForbidden, ask(`[]`, "Sec-Fetch-Site", "cross-site").Code, "another site")
}

// TestServer: no name of somebody else leads to the page.
func TestServer(t *testing.T) {
	t.Parallel()
	server := playground.Server(playground.Handler(), "devbox:8420")
	for host, want := range map[string]int{
		"127.0.0.1:8420": http.StatusOK, "[::1]:8420": http.StatusOK, "localhost": http.StatusOK, "devbox:8420": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest,
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Host = host
		server.Handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}
