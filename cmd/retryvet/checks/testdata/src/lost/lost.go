package lost

import (
	"errors"
	"fmt"
	"time"

	oldretry "github.com/avast/retry-go"
	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
)

func call() error { return nil }

func dropped(d time.Duration) error {
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if err := call(); err == nil {
			return nil
		}
	}
	return errors.New("max retries exceeded") // want `the error of the last attempt is lost`
}

func format(n int, d time.Duration) (int, error) {
	for i := 0; i < n; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if err := call(); err == nil {
			return 1, nil
		}
	}
	return 0, fmt.Errorf("failed after %d attempts", n) // want `the error of the last attempt is lost`
}

func named(d time.Duration) error {
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if err := call(); err == nil {
			return nil
		}
	}
	name := "call"
	return fmt.Errorf("%s failed", name) // want `the error of the last attempt is lost`
}

func marks() error {
	return backoff.Retry(func() error {
		err := call()
		if err != nil {
			return fmt.Errorf("call: %v", backoff.Permanent(err)) // want `%v drops the mark: use %w`
		}
		return retry.Unrecoverable(err) // want `which does not know this mark of github.com/avast/retry-go/v4`
	}, backoff.NewExponentialBackOff())
}

func opaque() error {
	return oldretry.Do(func() error {
		return fmt.Errorf("call: %w", oldretry.Unrecoverable(call())) // want `does not see a mark that is wrapped`
	})
}

func ignores() {
	backoff.Retry(call, backoff.NewExponentialBackOff())                                // want `the error is ignored`
	go retry.Do(func() error { return call() })                                         // want `the error is ignored`
	backoff.Retry(func() error { call(); return nil }, backoff.NewExponentialBackOff()) // never fails
	_ = retry.Do(call)
	tries := 0
	backoff.Retry(func() error { tries++; last := call(); return last }, backoff.NewExponentialBackOff()) // want `the error is ignored`
}

// What follows is in order.

func kept(d time.Duration) error {
	var last error
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		if last = call(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("max retries exceeded: %w", last)
}

func joined(d time.Duration) error {
	var all []error
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(d)
		}
		err := call()
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return fmt.Errorf("max retries exceeded: %v", all)
}

func wrapped() error {
	return backoff.Retry(func() error {
		return fmt.Errorf("call: %w", backoff.Permanent(call()))
	}, backoff.NewExponentialBackOff())
}

func leaves() error {
	var err error
	backoff.Retry(func() error {
		err = call()
		return err
	}, backoff.NewExponentialBackOff())
	return err
}

var errConflict = errors.New("conflict")

func conflicts() error {
	for i := 0; i < 3; i++ {
		if err := call(); err != nil {
			if errors.Is(err, errConflict) {
				continue
			}
			return err
		}
		return nil
	}
	return errors.New("changed by others three times; please retry")
}

func otherwise() error {
	for attempt := 0; attempt < 3; attempt++ {
		err := call()
		if err == nil {
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
	}
	return fmt.Errorf("%d conflicts: too many attempts", 3)
}

type conflict struct{}

func (*conflict) Error() string { return "conflict" }

func conflictsByType() error {
	for attempt := 0; attempt < 3; attempt++ {
		err := call()
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*conflict](err); !ok {
			return err
		}
	}
	return errors.New("changed by others three times; please retry")
}

var errAgain = errors.New("again")

func switchedKind(call func() error) error {
	for range 3 {
		switch err := call(); err {
		case nil:
			return nil
		case errAgain:
			continue
		default:
			return err
		}
	}
	return errors.New("max retries reached")
}

func shrinks(keys []string, encode func([]string) ([]byte, error), check func([]byte) error) ([]byte, error) {
	kept := keys
	for i := len(keys); i >= 0; i-- {
		raw, err := encode(kept)
		if err != nil {
			return nil, err
		}
		if err = check(raw); err != nil {
			kept = kept[:i]
			continue
		}
		return raw, nil
	}
	return nil, errors.New("failed to make it fit")
}

// Only a conflict goes round, and the text says so.
func assertedKind(call func() error) error {
	for range 3 {
		err := call()
		if err != nil {
			if _, ok := err.(*conflict); ok {
				continue
			}
			return err
		}
		return nil
	}
	return errors.New("max retries reached: conflict")
}

func typeSwitched(call func() error) error {
	for range 3 {
		if err := call(); err != nil {
			switch err.(type) {
			case *conflict:
				continue
			default:
				return err
			}
		}
		return nil
	}
	return errors.New("max retries reached: conflict")
}

// All but one kind go round.
func butOneKind(call func() error) error {
	for range 3 {
		if err := call(); err != nil {
			switch err.(type) {
			case *conflict:
				return err
			default:
				continue
			}
		}
		return nil
	}
	return errors.New("max retries reached") // want `is lost`
}

func switchedByKind(try func() error, taken func() bool) error {
	for range 3 {
		err := try()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAgain):
			if taken() {
				continue
			}
			return err
		default:
			return err
		}
	}
	return errors.New("failed to find a name that nobody has")
}

func comparedKind(try func() error) error {
	for range 3 {
		err := try()
		if err == errAgain {
			continue
		}
		return err
	}
	return errors.New("failed: the other side is busy")
}

func oneErrno(dial func() error) error {
	for i := 0; i < 3; i++ {
		err := dial()
		if err == nil {
			return nil
		}
		var c *conflict
		if errors.As(err, &c) && c != nil {
			continue
		} else {
			return err
		}
	}
	return errors.New("failed to connect: timed out")
}

// The last attempt returns what it got.
func returnsTheLast(dial func() error, attempts int) error {
	for i := 0; i < attempts; i++ {
		err := dial()
		if i == attempts-1 && err != nil {
			return err
		}
		if err == nil {
			return nil
		}
	}
	return errors.New("reached max retry")
}
