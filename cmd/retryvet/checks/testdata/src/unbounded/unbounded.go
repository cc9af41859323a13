package unbounded

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
	goretry "github.com/sethvargo/go-retry"
)

func call() error { return nil }

func endless(d time.Duration) error {
	for { // want `nothing ends these attempts but a success`
		err := call()
		if err == nil {
			return nil
		}
		time.Sleep(d)
	}
}

func cenkalti() error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 0
	return backoff.Retry(func() error { return call() }, b) // want `nothing ends these attempts but a success`
}

func avast() error {
	return retry.Do(func() error { return call() }, retry.Attempts(0)) // want `nothing ends these attempts`
}

func sethvargo() error {
	b := goretry.NewExponential(time.Second)
	return goretry.Do(context.Background(), b, func(context.Context) error { // want `nothing ends these attempts`
		return goretry.RetryableError(call())
	})
}

// What follows is in order.

func limited(d time.Duration) error {
	for i := 0; ; i++ {
		err := call()
		if err == nil || i == 9 {
			return err
		}
		time.Sleep(d)
	}
}

func stopped(stop chan struct{}, d time.Duration) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		select {
		case <-stop:
			return err
		case <-time.After(d):
		}
	}
}

func inTime(deadline time.Time, d time.Duration) error {
	for {
		err := call()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(d)
	}
}

func daemon(d time.Duration) {
	for {
		if call() == nil {
			return
		}
		time.Sleep(d)
	}
}

func withContext(ctx context.Context) error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 0
	return backoff.Retry(func() error { return call() }, backoff.WithContext(b, ctx))
}

func avastContext(ctx context.Context) error {
	return retry.Do(func() error { return call() }, retry.Attempts(0), retry.Context(ctx))
}

func sethvargoLimit() error {
	b := goretry.WithMaxRetries(3, goretry.NewExponential(time.Second))
	return goretry.Do(context.Background(), b, func(context.Context) error { return goretry.RetryableError(call()) })
}

func scheduler(d time.Duration, errs chan error) error {
	for {
		if err := call(); err == nil {
			for {
				select {
				case <-errs:
					break
				}
			}
		}
		time.Sleep(d)
	}
}

// The limit is asked before each attempt.
func countedFirst(call func() error, failFast bool) error {
	var err error
	for try := 0; ; try++ {
		if try == 3 || try == 1 && failFast {
			return err
		}
		if try > 0 {
			time.Sleep(time.Second)
		}
		if err = call(); err != nil {
			continue
		}
		return nil
	}
}

// Names that stand for themselves in the end.
func allGood(good bool, code int, call func() error) {
	for {
		err := call()
		good = good && err == nil
		code = code / 2
		if good || code == 0 {
			return
		}
		time.Sleep(time.Second)
	}
}

func even(n int, err error) bool {
	for err == nil {
		err = retryOnce()
		if even(n/2, err) || n/2 == 1 {
			return true
		}
	}
	return odd(n/2, err)
}

func odd(m int, err error) bool {
	for err == nil {
		err = retryOnce()
		if even(m/2, err) || m/2 == 1 {
			return true
		}
	}
	return even(m/2, err)
}

func retryOnce() error { return nil }
