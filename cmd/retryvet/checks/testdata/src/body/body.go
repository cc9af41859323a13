package body

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func sameRequest(ctx context.Context, client *http.Client, text string, d time.Duration) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://x", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	for {
		resp, err := client.Do(req) // want `sends the request again although its body was read`
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func sameReader(client *http.Client, text []byte, d time.Duration) (*http.Response, error) {
	body := bytes.NewBuffer(text)
	for {
		req, err := http.NewRequest(http.MethodPut, "http://x", body) // want `body was read by the first attempt`
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func inFunction(text io.Reader) error {
	return backoff.Retry(func() error {
		resp, err := http.Post("http://x", "text/plain", text) // want `text was read by the first attempt`
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}, backoff.NewExponentialBackOff())
}

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		resp, err := t.next.RoundTrip(req) // want `sends the request again`
		if err == nil || attempt == 3 {
			return resp, err
		}
	}
}

// What follows is in order.

func rewinds(client *http.Client, text string, d time.Duration) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPut, "http://x", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	for {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func without(client *http.Client, d time.Duration) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://x", nil)
	if err != nil {
		return nil, err
	}
	for {
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func ownRequests(client *http.Client, text string, d time.Duration) (*http.Response, error) {
	for {
		req, err := http.NewRequest(http.MethodPut, "http://x", strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func seeks(client *http.Client, body *bytes.Reader, d time.Duration) (*http.Response, error) {
	for {
		body.Seek(0, io.SeekStart)
		req, err := http.NewRequest(http.MethodPut, "http://x", body)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func wrapped(client *http.Client, r *bytes.Reader) error {
	for i := 0; i < 3; i++ {
		req, err := http.NewRequest(http.MethodPut, "http://x.test", io.NopCloser(bufio.NewReader(r))) // want `r was read by the first attempt`
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			return resp.Body.Close()
		}
	}
	return errors.New("gave up")
}

func setBefore(client *http.Client, text string) error {
	req, err := http.NewRequest(http.MethodPut, "http://x.test", nil)
	if err != nil {
		return err
	}
	req.Body = io.NopCloser(strings.NewReader(text))
	for range 3 {
		resp, err := client.Do(req) // want `sends the request again although its body was read`
		if err == nil {
			return resp.Body.Close()
		}
	}
	return errors.New("gave up")
}

type api struct{ client *http.Client }

func (a *api) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("X-Key", "x")
	return a.client.Do(req)
}

func (a *api) repeat(req *http.Request) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := a.send(req) // want `sends the request again although its body was read`
		if err == nil || i == 3 {
			return resp, err
		}
		time.Sleep(time.Second)
	}
}

func (a *api) order(text []byte) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, "http://x.test", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return a.repeat(req)
}

// What follows is in order.

func (a *api) repeatGet(req *http.Request) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := a.send(req)
		if err == nil || i == 3 {
			return resp, err
		}
		time.Sleep(time.Second)
	}
}

func (a *api) get() (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://x.test", nil)
	if err != nil {
		return nil, err
	}
	return a.repeatGet(req)
}

func (a *api) rewinds(req *http.Request) (*http.Response, error) {
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	return a.client.Do(req)
}

func (a *api) rewound(text []byte) error {
	req, err := http.NewRequest(http.MethodPost, "http://x.test", bytes.NewReader(text))
	if err != nil {
		return err
	}
	for range 3 {
		if resp, err := a.rewinds(req); err == nil {
			return resp.Body.Close()
		}
	}
	return errors.New("gave up")
}

func anew(client *http.Client, text []byte) error {
	for i := 0; i < 3; i++ {
		req, err := http.NewRequest(http.MethodPut, "http://x.test", io.NopCloser(bytes.NewReader(text)))
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			return resp.Body.Close()
		}
	}
	return errors.New("gave up")
}
