package recipes_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/recipes"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

type tokens struct{ version, calls int }

func (t *tokens) token() string { return fmt.Sprintf("Bearer %d", t.version) }

func (t *tokens) Get(context.Context) (string, error) { return fmt.Sprint(t.version), nil }

func (t *tokens) Refused(header string) {
	if t.calls++; header == t.token() {
		t.version++
	}
}

func TestAuthorized(t *testing.T) {
	t.Parallel()
	store, wanted := &tokens{}, "Bearer 1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != wanted:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	client := recipes.Authorized(store)
	client.Transport.(*retryhttp.Transport).Policy.Backoff = retry.Constant(0)
	for range 3 { // use up the budget of the host
		resp, err := client.Get(server.URL + "/down")
		require.NoError(t, err)
		resp.Body.Close()
	}
	post := func() *http.Response {
		resp, err := client.Post(server.URL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	resp := post()
	assert.Equal(t, 200, resp.StatusCode, retryhttp.Why(resp))
	assert.Equal(t, 1, store.calls)
	wanted = "nobody's"
	resp = post()
	assert.Equal(t, 401, resp.StatusCode)
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	assert.ErrorIs(t, retryhttp.Why(resp), retry.StopAttempts)
}

func TestUpload(t *testing.T) {
	t.Parallel()
	var stored bytes.Buffer
	fail := map[int]bool{1: true, 4: true}
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, _ := io.ReadAll(r.Body)
		if calls++; fail[calls] {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		assert.Equal(t, fmt.Sprintf("bytes %d-%d/10", stored.Len(), stored.Len()+len(part)-1), r.Header.Get("Content-Range"))
		stored.Write(part)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{Backoff: retry.Constant(0)}}}
	end, err := recipes.Upload(t.Context(), client, server.URL, strings.NewReader("0123456789"), 0, 10, 4)
	require.NoError(t, err)
	assert.EqualValues(t, 10, end)
	assert.Equal(t, "0123456789", stored.String())
}

func TestDownload(t *testing.T) {
	t.Parallel()
	const content = "0123456789"
	calls, etag := 0, `"v1"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if etag == "another" {
			w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, calls))
		}
		if calls++; calls%2 == 1 { // breaks off
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, content[:4])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}))
	defer server.Close()
	policy := &retry.Policy{Backoff: retry.Constant(0)}
	var got bytes.Buffer
	require.NoError(t, recipes.Download(t.Context(), policy, server.URL, &got))
	assert.Equal(t, content, got.String())
	assert.Equal(t, 2, calls)
	for _, etag = range []string{"", "another"} {
		assert.ErrorContains(t, recipes.Download(t.Context(), policy, server.URL, io.Discard), "does not resume")
	}
}

func TestSaga(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var did []string
		step := func(name string, failures int) recipes.Step {
			return recipes.Step{
				Do: func(context.Context) error {
					if did = append(did, name); name == "ship" {
						cancel()
						return retry.MarkFinal(errors.New("no ship"))
					}
					return nil
				},
				Undo: func(ctx context.Context) error {
					did = append(did, "un"+name)
					if failures--; failures >= 0 {
						return errors.New("later")
					}
					return ctx.Err()
				},
			}
		}
		err := recipes.Saga(ctx, &retry.Policy{}, step("book", 5), step("pay", 0), step("ship", 0), step("tell", 0))
		assert.ErrorContains(t, err, "no ship")
		assert.ErrorIs(t, err, retry.StopCanceled)
		assert.Equal(t, "book pay ship unship unpay"+strings.Repeat(" unbook", 6), strings.Join(did, " "))
	})
}

// TestMail: 450 is greylisting, and 550 is an address that nobody has.
func TestMail(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]int{"450 later": 2, "550 nobody": 1} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		calls := make(chan string, 9)
		go serveMail(listener, first, calls)
		policy := &retry.Policy{Backoff: retry.Constant(0)}
		err = recipes.Mail(t.Context(), policy, listener.Addr().String(), nil, "a@example.com", []string{"b@example.com"}, []byte("hi"))
		assert.Equal(t, want == 2, err == nil, err)
		assert.Len(t, calls, want)
		_ = listener.Close()
	}
}

func serveMail(listener net.Listener, answer string, calls chan<- string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(conn, "220 hi\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			reply := "250 ok"
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "RCPT"):
				calls <- line
				reply, answer = answer, "250 ok"
			case line == "DATA":
				reply = "354 go on"
			case line == "hi":
				continue
			case line == "QUIT":
				reply = "221 bye"
			}
			fmt.Fprint(conn, reply+"\r\n")
		}
		_ = conn.Close()
	}
}
