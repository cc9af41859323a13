package lastsleep

import (
	"context"
	"errors"
	"fmt"
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
