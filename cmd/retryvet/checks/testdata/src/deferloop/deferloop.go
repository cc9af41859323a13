package deferloop

import (
	"context"
	"net/http"
	"time"
)

func call(context.Context) error { return nil }

func timeouts(ctx context.Context, d time.Duration) error {
	for attempt := 0; ; attempt++ {
		attemptCtx, cancel := context.WithTimeout(ctx, d)
		defer cancel() // want `deferred in a loop that retries`
		err := call(attemptCtx)
		if err == nil || attempt == 3 {
			return err
		}
	}
}

func responses(client *http.Client, req *http.Request, d time.Duration) (int, error) {
	for {
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close() // want `deferred in a loop that retries`
		if resp.StatusCode == 429 {
			time.Sleep(d)
			continue
		}
		return resp.StatusCode, nil
	}
}

// What follows is in order.

func onlyAtTheEnd(client *http.Client, req *http.Request, d time.Duration) (int, error) {
	for {
		resp, err := client.Do(req)
		if err != nil {
			time.Sleep(d)
			continue
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
}

func ownFunction(ctx context.Context, d time.Duration) error {
	for attempt := 0; ; attempt++ {
		err := func() error {
			attemptCtx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			return call(attemptCtx)
		}()
		if err == nil || attempt == 3 {
			return err
		}
	}
}

func noRetry(files []string, open func(string) (func(), error)) error {
	for _, file := range files {
		closeFile, err := open(file)
		if err != nil {
			return err
		}
		defer closeFile()
	}
	return nil
}
