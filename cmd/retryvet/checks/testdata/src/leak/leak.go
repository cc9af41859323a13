package leak

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func again(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req) // want `the body of the response is not closed before the next attempt`
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func readOnly(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req) // want `not closed`
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			io.CopyN(io.Discard, resp.Body, 512)
			time.Sleep(d)
			continue
		}
		return resp, nil
	}
}

// A body that is read to its end has freed its connection.
func readToTheEnd(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			io.Copy(io.Discard, resp.Body)
			time.Sleep(d)
			continue
		}
		return resp, nil
	}
}

func shouldRetry(resp *http.Response, err error) bool { return err != nil || resp.StatusCode > 499 }

func asks(client *http.Client, req *http.Request, d time.Duration) (resp *http.Response, err error) {
	for retries := 0; retries < 4; retries++ {
		resp, err = client.Do(req) // want `not closed`
		if !shouldRetry(resp, err) {
			break
		}
		time.Sleep(d)
	}
	return resp, err
}

func inFunction(client *http.Client, req *http.Request) (text []byte, err error) {
	err = backoff.Retry(func() error {
		resp, err := client.Do(req) // want `not closed`
		if err != nil {
			return err
		}
		if resp.StatusCode > 499 {
			return errors.New(resp.Status)
		}
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
		return err
	}, backoff.NewExponentialBackOff())
	return text, err
}

// What follows is in order.

func closes(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		if resp != nil {
			resp.Body.Close()
		}
		time.Sleep(d)
	}
}

func closesIfThere(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		time.Sleep(d)
	}
}

func drain(*http.Response) {}

func gives(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		drain(resp)
		time.Sleep(d)
	}
}

func closesFirst(client *http.Client, req *http.Request, d time.Duration) (resp *http.Response, err error) {
	for i := 0; i < 3; i++ {
		if resp != nil {
			resp.Body.Close()
		}
		resp, err = client.Do(req)
		if err == nil && resp.StatusCode < 500 {
			break
		}
		time.Sleep(d)
	}
	return resp, err
}

func ok(code int) bool { return code >= 200 && code < 300 }

func ofHelper(client *http.Client) error {
	for i := 0; i < 3; i++ {
		resp, err := client.Get("http://x.test") // want `the body of the response is not closed`
		if err == nil && ok(resp.StatusCode) {
			return resp.Body.Close()
		}
	}
	return errors.New("gave up")
}

func noName(client *http.Client) (*http.Response, error) {
	for range 3 {
		resp, err := client.Get("http://x.test") // want `the body of the response is not closed`
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
	}
	return nil, errors.New("no answer")
}

// What follows is in order.

func closesThem(client *http.Client) (*http.Response, error) {
	for range 3 {
		resp, err := client.Get("http://x.test")
		if err != nil {
			continue
		}
		if ok(resp.StatusCode) {
			return resp, nil
		}
		resp.Body.Close()
	}
	return nil, errors.New("no answer")
}

func candidates(client *http.Client, urls []string) (*http.Response, error) {
	for i := 0; i < len(urls); i++ {
		resp, err := client.Get(urls[i])
		if err == nil && ok(resp.StatusCode) {
			return resp, nil
		}
	}
	return nil, errors.New("no answer")
}

func closedInside(client *http.Client, req *http.Request) error {
	var resp *http.Response
	var err error
	handle := func() error {
		defer resp.Body.Close()
		if resp.StatusCode > 299 {
			return errors.New(resp.Status)
		}
		return nil
	}
	for range 3 {
		resp, err = client.Do(req)
		if err == nil {
			if err = handle(); err == nil {
				return nil
			}
		}
	}
	return err
}

type api struct{ client *http.Client }

// post returns what the body held, and has closed it.
func (a api) post(url string) (*http.Response, []byte, error) { return nil, nil, nil }

func readAlready(a api, url string, d time.Duration) ([]byte, error) {
	for {
		resp, body, err := a.post(url)
		if err == nil && resp.StatusCode == http.StatusOK {
			return body, nil
		}
		time.Sleep(d)
	}
}

func (a api) status(url string) (*http.Response, error) {
	resp, err := a.client.Get(url)
	if err != nil {
		return nil, err
	}
	return resp, resp.Body.Close()
}

func closedByMaker(a api, url string, d time.Duration) error {
	for {
		resp, err := a.status(url)
		if err == nil && resp.StatusCode == http.StatusOK {
			return nil
		}
		time.Sleep(d)
	}
}

func (a api) get(url string) (*http.Response, error) { return a.client.Get(url) }

func openByMaker(a api, url string, d time.Duration) (*http.Response, error) {
	for {
		resp, err := a.get(url) // want `not closed`
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		time.Sleep(d)
	}
}
