package deferloop

import (
	"context"
	"errors"
	"io"
	"net"
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

type answer struct{ failed bool }

func (a *answer) Failed() bool { return a.failed }

func counted(send func(context.Context) (*answer, error)) error {
	for try := 0; try < 3; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel() // want `deferred in a loop that retries`
		a, err := send(ctx)
		if err != nil || a.Failed() {
			continue
		}
		return nil
	}
	return errors.New("gave up")
}

func reconnects(dial func() (net.Conn, error), serve func(net.Conn)) {
	for {
		conn, err := dial()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		defer conn.Close() // want `deferred in a loop that retries`
		serve(conn)
	}
}

// What follows is in order.

func first(send func() error, unlock func()) error {
	for try := 0; try < 3; try++ {
		if try == 0 {
			defer unlock()
		}
		if err := send(); err == nil {
			return nil
		}
	}
	return errors.New("gave up")
}

func onceOnly(send func() error, lock, unlock func()) error {
	locked := false
	for try := 0; try < 3; try++ {
		if !locked {
			lock()
			defer unlock()
			locked = true
		}
		if err := send(); err == nil {
			return nil
		}
	}
	return errors.New("gave up")
}

// Each attempt asks another server.
func anyOf(client *http.Client, urls []string) (err error) {
	attempts := 0
	for _, url := range urls {
		attempts++
		var (
			address   = "http://" + url
			resp, err = client.Get(address)
		)
		if err != nil {
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return err
}

// What is deferred after a success alone ends the loop.
func afterSuccess(open func() (io.Closer, error), d time.Duration) error {
	var err error
	for {
		var c io.Closer
		c, err = open()
		if err == nil {
			defer c.Close()
		}
		if err == nil {
			break
		}
		time.Sleep(d)
	}
	return err
}

type object struct{ main io.Closer }

// Each candidate is loaded into the same object.
func loads(specs []string, load func(string, *object) error, attach func(io.Closer) error) error {
	var obj object
	var err error
	for attempt, spec := range specs {
		err = load(spec, &obj)
		if err != nil {
			return err
		}
		defer obj.main.Close()
		err = attach(obj.main)
		if errors.Is(err, io.EOF) {
			println(attempt)
			continue
		}
		break
	}
	return err
}
