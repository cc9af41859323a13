package body

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

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
