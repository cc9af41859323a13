package lastsleep

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"
)

func status(client *http.Client) error {
	for range 3 {
		resp, err := client.Get("http://x.test")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode < 300 {
			return nil
		}
		time.Sleep(time.Second) // want `waits after the last attempt too`
	}
	return errors.New("gave up")
}

func inSwitch(ctx context.Context, call func(context.Context) error) (err error) {
	for try := 0; try < 6; try++ {
		err = call(ctx)
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			time.Sleep(time.Second * time.Duration(math.Pow(2, float64(try)))) // want `waits after the last attempt too`
			continue
		default:
			return nil
		}
	}
	return err
}

func ofStatus(get func() (int, error)) error {
	for i := 0; i < 3; i++ {
		status, err := get()
		switch {
		case err != nil:
			return err
		case status == 200:
			return nil
		case status == 429, status >= 500:
			time.Sleep(time.Second) // want `waits after the last attempt too`
		default:
			return errors.New("no")
		}
	}
	return errors.New("gave up")
}

func until(ready func() bool) error {
	for i := 0; i < 30; i++ {
		if ready() {
			return nil
		}
		time.Sleep(time.Second) // want `waits after the last attempt too`
	}
	return errors.New("it did not start")
}

func ticks(call func() error) (err error) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for range 5 {
		if err = call(); err == nil {
			return nil
		}
		<-t.C // want `waits after the last attempt too`
	}
	return err
}

// What follows is in order.

func countInSwitch(call func() error) (err error) {
	for try := 0; try < 6; try++ {
		err = call()
		switch {
		case err == nil, try == 5:
			return err
		default:
			time.Sleep(time.Second)
		}
	}
	return err
}

func soon(ready func() bool) error {
	for i := 0; i < 30; i++ {
		if ready() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("it did not start")
}

func looksAgain(ready func() bool) error {
	for i := 0; i < 30; i++ {
		time.Sleep(time.Second)
		if ready() {
			return nil
		}
	}
	return errors.New("it did not start")
}

// warmsUp goes on either way: the last wait may help.
func warmsUp(ready func() bool, run func()) {
	for range 10 {
		if ready() {
			break
		}
		time.Sleep(time.Second)
	}
	run()
}

// The last wait takes 10 ms.
func soonAgain() (err error) {
	for i := 0; i < 10; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(time.Duration(i+1) * time.Millisecond)
	}
	return err
}

func growing() (err error) {
	for i := 0; i < 100; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(time.Duration(i+1) * time.Millisecond) // want `waits after the last attempt too`
	}
	return err
}

type invalidation struct{ Status string }

// The function goes on either way, so the last wait may help.
func eitherWay(look func() (*invalidation, error)) error {
	for i := 0; i < 10; i++ {
		got, err := look()
		if err != nil {
			return err
		}
		if got.Status == "Completed" {
			break
		}
		time.Sleep(6 * time.Second)
	}
	return nil
}

func eitherWayTold(look func() (*invalidation, error)) (*invalidation, error) {
	var got *invalidation
	var err error
	for i := 0; i < 10; i++ {
		got, err = look()
		if err != nil {
			return nil, err
		}
		if got.Status == "Completed" {
			break
		}
		time.Sleep(6 * time.Second) // want `waits after the last attempt too`
	}
	return got, nil
}

func notFound(look func() (*invalidation, error)) *invalidation {
	for i := 0; i < 10; i++ {
		got, err := look()
		if err == nil && got.Status == "Completed" {
			return got
		}
		time.Sleep(6 * time.Second) // want `waits after the last attempt too`
	}
	return nil
}

// Nobody looks whether the server answered, so the last wait may help.
func bestEffort(start func()) {
	for i := 0; i < 3; i++ {
		if err := call(); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	start()
}

func countedOutside(start func()) {
	i := 0
	for ; i < 3; i++ {
		if err := call(); err == nil {
			break
		}
		time.Sleep(time.Second) // want `waits after the last attempt too`
	}
	if i == 3 {
		panic("no answer")
	}
	start()
}
