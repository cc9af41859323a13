package retryhttp_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The transport reads neither a long body nor the body of the response that the
// caller gets.
func TestWhatIsDrained(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		attempts int
		length   int64
		want     int64
	}{
		{"discarded", 2, 4096, 4096},
		{"discarded, of unknown length", 2, -1, 4096},
		{"too long", 2, 4097, 0},
		{"the last", 1, 4096, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var read int64
			first := &onceBody{Reader: countingReader{&read}}
			responses := []*http.Response{
				{StatusCode: 503, ContentLength: test.length, Body: first},
				{StatusCode: 200, Body: http.NoBody},
			}
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				resp := responses[0]
				responses = responses[1:]
				return resp, nil
			})
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(test.attempts)}
			resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
			require.NoError(t, err)
			assert.Equal(t, test.want, read)
			assert.EqualValues(t, test.attempts-1, first.closed.Load())
			assert.NoError(t, resp.Body.Close())
		})
	}
}

type countingReader struct{ n *int64 }

func (r countingReader) Read(p []byte) (int, error) {
	*r.n += int64(len(p))
	return len(p), nil
}

func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			_, _ = io.CopyN(conn, buffered, 5) // which may hold the first byte
			_ = conn.Close()
		}
	})
	req := request(t, http.MethodGet, s.URL, nil, "Connection", "Upgrade", "Upgrade", "echo")
	resp, err := client(t, nil, atOnce(2)).Do(req)
	require.NoError(t, err)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	assert.Equal(t, "hello", text(t, resp))
}
