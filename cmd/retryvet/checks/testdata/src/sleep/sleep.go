package sleep

import (
	"context"
	"errors"
	"net/http"
	"time"
)

func call(context.Context) error { return nil }

func loop(ctx context.Context, d time.Duration) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		time.Sleep(d) // want `the wait before the next attempt ignores ctx`
	}
}

func results(ctx context.Context) (int, error) {
	var err error
	for attempt := 0; attempt < 3; attempt++ {
		if err = call(ctx); err == nil {
			return 1, nil
		}
		<-time.After(time.Second) // want `ignores ctx`
	}
	return 0, err
}

func aTimer(ctx context.Context) (int, error) {
	for {
		if err := call(ctx); err != nil {
			timer := time.NewTimer(time.Second)
			<-timer.C // want `ignores ctx`
			continue
		}
		return 1, nil
	}
}

func inSelect(ctx context.Context, d time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		default:
			err := call(ctx)
			if err == nil {
				return nil
			}
			time.Sleep(d) // want `ignores ctx`
		}
	}
}

func request(client *http.Client, req *http.Request, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusTooManyRequests {
			return resp, nil
		}
		resp.Body.Close()
		time.Sleep(d) // want `ignores req.Context\(\)`
	}
}

func steps(ctx context.Context, d time.Duration) (int, error) {
	for {
		if err := call(ctx); err != nil {
			time.Sleep(d) // want `ignores ctx`
			continue
		}
		if err := call(ctx); err != nil {
			time.Sleep(d) // want `ignores ctx`
			continue
		}
		return 1, nil
	}
}

func closure(ctx context.Context, d time.Duration) {
	go func() error {
		for {
			err := call(ctx)
			if err == nil {
				return nil
			}
			time.Sleep(d) // want `ignores ctx`
		}
	}()
}

type holder struct{ ctx context.Context }

func (r holder) inField(d time.Duration) (int, error) {
	for {
		err := call(r.ctx)
		if err == nil {
			return 1, nil
		}
		time.Sleep(d) // want `ignores r.ctx`
	}
}

// What follows is in order.

func interruptible(ctx context.Context, d time.Duration) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
		}
	}
}

func without(d time.Duration) error {
	for {
		if err := call(nil); err == nil {
			return nil
		}
		time.Sleep(d)
	}
}

func background(d time.Duration) error {
	ctx := context.Background()
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(d)
	}
}

func short(ctx context.Context) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(99 * time.Millisecond)
	}
}

func poll(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err != nil {
			return err
		}
		time.Sleep(d) // want `the wait before the next look ignores ctx`
	}
}

func items(ctx context.Context, names []string, d time.Duration, try func(string) error) error {
	for _, name := range names {
		if err := try(name); err == nil {
			return nil
		}
		time.Sleep(d)
	}
	return errors.New("none of them")
}

func pages(client *http.Client, req *http.Request, d time.Duration) error {
	for page := 0; ; page++ {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != 200 {
			return errors.New(resp.Status)
		}
		if resp.Header.Get("Link") == "" {
			return nil
		}
		time.Sleep(d)
	}
}

func explained(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		//retryvet:ignore the device must not be asked again sooner
		time.Sleep(d)
	}
}

func linted(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(d) //nolint:errcheck,retryvet // as above
		time.Sleep(d) //nolint:errcheck // want `ignores ctx`
	}
}

type options struct{ ctx context.Context }

func mayBeNil(o options, d time.Duration) error {
	for {
		err := call(o.ctx)
		if err == nil {
			return nil
		}
		if o.ctx != nil {
			select {
			case <-o.ctx.Done():
				return o.ctx.Err()
			case <-time.After(d):
			}
		} else {
			time.Sleep(d)
		}
	}
}

func detached(ctx context.Context, d time.Duration) {
	ctx = context.WithoutCancel(ctx)
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if err := call(ctx); err == nil {
			return
		}
	}
}

func whatever(req *http.Request, d time.Duration) {
	ctx := context.WithoutCancel(req.Context())
	for {
		err := call(ctx)
		if err == nil {
			return
		}
		time.Sleep(d)
	}
}
