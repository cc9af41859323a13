package retryhttp_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// 421: another connection may lead elsewhere, once, whatever the method. Those
// of others stay.
func TestMisdirected(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, always := range []bool{false, true} {
				t.Run(fmt.Sprintf("HTTP/2 %v, %s, always %v", h2, method, always), func(t *testing.T) {
					t.Parallel()
					handlers := []http.HandlerFunc{status(200), status(421), status(200)}
					if always {
						handlers = handlers[:2]
					}
					s, base := serveMisdirecting(t, h2, handlers...)
					other := serve(t, status(200))
					c := client(t, base, atOnce(9))
					for _, url := range []string{s.URL, other.URL} {
						resp, err := c.Get(url)
						require.NoError(t, err)
						assert.Equal(t, "status 200", text(t, resp))
					}
					resp, err := c.Do(request(t, method, s.URL, strings.NewReader("hello")))
					require.NoError(t, err)
					assert.Equal(t, always, resp.StatusCode == http.StatusMisdirectedRequest)
					assert.Equal(t, fmt.Sprint("status ", resp.StatusCode), text(t, resp))
					assert.Equal(t, 2, retryhttp.Attempts(resp))
					assert.EqualValues(t, 3, s.requests.Load())
					assert.EqualValues(t, 2, s.conns.Load())
					eventually(t, "the end of the connection", s.closed) // its own, when it is done

					for _, url := range []string{s.URL, other.URL} {
						resp, err := c.Get(url)
						require.NoError(t, err)
						_ = text(t, resp)
					}
					assert.EqualValues(t, 1, other.conns.Load())
					if !always { // else the last request was misdirected, too
						assert.EqualValues(t, 2, s.conns.Load())
					}
				})
			}
		}
	}
}

// misdirecting is a server that tells when a connection is closed.
type misdirecting struct {
	server
	closed chan struct{}
}

func serveMisdirecting(t *testing.T, h2 bool, handlers ...http.HandlerFunc) (*misdirecting, *http.Transport) {
	t.Helper()
	s := &misdirecting{closed: make(chan struct{}, 1)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, h2, r.ProtoMajor == 2)
		n := int(s.requests.Add(1))
		handlers[min(n, len(handlers))-1](w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed:
			select {
			case s.closed <- struct{}{}:
			default: // told before
			}
		default:
		}
	}
	s.EnableHTTP2 = h2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.Client().Transport.(*http.Transport)
}

// Nobody knows how to make another transport use a new connection.
func TestMisdirectedByAnyTransport(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421), status(200))
	base, _ := toOK(t)
	resp, err := client(t, roundTripper(base.RoundTrip), atOnce(9)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 421", text(t, resp))
	assert.EqualValues(t, 1, s.requests.Load())
}

// Do reaches the transport beneath the client.
func TestMisdirectedDo(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421), status(200))
	base, _ := toOK(t)
	err := retryhttp.Do(client(t, base, atOnce(9)), nil, request(t, http.MethodPost, s.URL, strings.NewReader("hello")),
		func(*http.Response) error { return nil })
	require.NoError(t, err)
	assert.EqualValues(t, 2, s.requests.Load())
	assert.EqualValues(t, 2, s.conns.Load())
}
