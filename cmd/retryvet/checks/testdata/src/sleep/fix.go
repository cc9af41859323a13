package sleep

import (
	"context"
	"net/http"
	"time"
	clock "time"
)

// What -fix mends, in every place in which a wait can be.

func literal(ctx context.Context) error {
	for i := 0; ; i++ {
		err := call(ctx)
		if err == nil || i == 2 {
			return err
		}
		time.Sleep([]time.Duration{ // want `ignores ctx`
			time.Second, // at first
			2:           2 * time.Second,
		}[i] /* at last */)
	}
}

func function(ctx context.Context) error {
	for i := 0; ; i++ {
		err := call(ctx)
		if err == nil || i == 2 {
			return err
		}
		time.Sleep(func() time.Duration { return time.Second << min(i, 3) }()) // want `ignores ctx`
	}
}

type delays struct{ base time.Duration }

func (d delays) next() time.Duration { return d.base }

func convert[T ~int64](n T) time.Duration { return time.Duration(n) }

func generic[T ~int64](ctx context.Context, n T) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(convert[T](n)) // want `ignores ctx`
	}
}

func trailingComma(ctx context.Context) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep( // want `ignores ctx`
			// As the server says.
			delays{base: time.Second}.next(),
		)
	}
}

func parentheses(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		(time.Sleep)(d) // want `ignores ctx`
	}
}

func receive(ctx context.Context, d delays) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		(<-time.After(d.next())) // want `ignores ctx`
	}
}

func renamed(ctx context.Context, time delays) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		clock.Sleep(time.base) // want `ignores ctx`
	}
}

func labels(ctx context.Context, d time.Duration) error {
	for i := 0; ; i++ {
		err := call(ctx)
		switch {
		case err == nil:
			return nil
		case i == 0:
			goto wait
		case i == 1:
			time.Sleep(d) // want `ignores ctx`
			fallthrough
		default:
			continue
		}
	wait:
		time.Sleep(d) // want `ignores ctx`
	}
}

func within(ctx context.Context, wait func(func() error) time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(wait(func() error { // want `ignores ctx`
			for {
				if err := call(ctx); err == nil {
					return nil
				}
				time.Sleep(time.Second) // want `ignores ctx`
			}
		}))
	}
}

func requestInHand(client *http.Client, req *http.Request, d time.Duration) error {
	for {
		resp, err := client.Do(req)
		if err == nil {
			return resp.Body.Close()
		}
		time.Sleep(d) // want `ignores req.Context\(\)`
	}
}

func (r holder) fieldOf(d time.Duration) error {
	for {
		if err := call(r.ctx); err == nil {
			return nil
		}
		time.Sleep(d) // want `ignores r.ctx`
	}
}

// What -fix leaves alone.

func header(ctx context.Context, d time.Duration) error {
	for i := 0; ; i++ {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if time.Sleep(d); i == 3 { // want `ignores ctx`
			return err
		}
		switch time.Sleep(d); i { // want `ignores ctx`
		}
	}
}

func clause(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		select { // want `ignores ctx`
		case <-time.After(d):
			println("again")
		}
	}
}

func shadowed(ctx context.Context, r holder, d time.Duration) error {
	{
		ctx := 1
		_ = ctx
		for {
			if err := call(r.ctx); err == nil {
				return nil
			}
			r := 1
			_ = r
			time.Sleep(d) // want `ignores r.ctx`
		}
	}
}

func unset(d time.Duration) error {
	var ctx context.Context
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(d) // want `ignores ctx`
	}
}

func maybe(ctx context.Context, d time.Duration) error {
	for {
		if nil == ctx {
			return nil
		}
		if err := call(ctx); err == nil {
			return nil
		}
		time.Sleep(d) // want `ignores ctx`
	}
}

// Its context never ends.
func requestMade(client *http.Client, d time.Duration) error {
	var req *http.Request
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			time.Sleep(d)
		}
		req, _ = http.NewRequest("GET", "/", nil)
		if _, err := client.Do(req); err == nil {
			return nil
		}
	}
}

// pauser only sleeps, and has no method After.
type pauser struct{ base time.Duration }

func (p pauser) pause(d time.Duration) { time.Sleep(d) }

func (p pauser) rest() { time.Sleep(p.base) }

func pausers(ctx context.Context, p pauser) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		p.pause(time.Second) // want `ignores ctx`
		p.rest()             // want `ignores ctx`
	}
}

func elsewhere(ctx context.Context, d time.Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
//line sleep.y:7
		time.Sleep(d) // want `ignores ctx`
	}
}
