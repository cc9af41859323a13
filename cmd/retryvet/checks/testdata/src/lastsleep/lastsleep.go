package lastsleep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

func call() error { return nil }

func counted(d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(d) // want `waits after the last attempt too`
	}
	return err
}

func ranged(n int, d time.Duration) error {
	var err error
	for range n {
		err = call()
		if err != nil {
			time.Sleep(d) // want `waits after the last attempt too`
			continue
		}
		return nil
	}
	return fmt.Errorf("gave up: %w", err)
}

func delays(waits []time.Duration) error {
	var err error
	for _, d := range waits {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(d) // want `waits after the last attempt too`
	}
	return err
}

func inTheBody(ctx context.Context, n uint, d time.Duration) error {
	var i uint
	for i < n {
		err := call()
		if err != nil {
			select { // want `waits after the last attempt too`
			case <-time.After(d):
			case <-ctx.Done():
				return errors.New("canceled")
			}
		} else {
			return nil
		}
		i++
	}
	return errors.New("no")
}

func down(retries int, d time.Duration) error {
	var err error
	for retries > 0 {
		if err = call(); err == nil {
			return nil
		}
		retries--
		time.Sleep(d) // want `waits after the last attempt too`
	}
	return err
}

// What follows is in order.

func guarded(d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		if i < 2 {
			time.Sleep(d)
		}
	}
	return err
}

func leftBefore(d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		err = call()
		if err == nil || i == 2 {
			break
		}
		time.Sleep(d)
	}
	return err
}

func waitsFirst(d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}

func waitsFirstInSelect(ctx context.Context, n int, d time.Duration) (err error) {
	for i := 0; i < n; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			if err = call(); err != nil {
				continue
			}
			return nil
		}
	}
	return err
}

func onceMore(d time.Duration) error {
	for i := 0; i < 3; i++ {
		if err := call(); err == nil {
			return nil
		}
		time.Sleep(d)
	}
	return call()
}

func untilTime(d time.Duration, deadline time.Time) (err error) {
	for time.Now().Before(deadline) {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(d)
	}
	return err
}

func decided(max int, wait func(i, max int) time.Duration) (err error) {
	for i := 0; i <= max; i++ {
		if err = call(); err == nil {
			return nil
		}
		if d := wait(i, max); d > 0 {
			time.Sleep(d)
			continue
		}
		break
	}
	return err
}

func settles(d time.Duration) error {
	for i := 0; i < 3; i++ {
		err := call()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if d > 0 {
			time.Sleep(d)
		}
		return nil
	}
	return errors.New("no")
}

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
