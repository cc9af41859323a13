package sleep

import (
	"context"
	. "time"
)

func dot(ctx context.Context, d Duration) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		Sleep(d) // want `ignores ctx`
	}
}

func dotShadowed(ctx context.Context, d Duration, After func(Duration)) error {
	for {
		if err := call(ctx); err == nil {
			return nil
		}
		Sleep(d) // want `ignores ctx`
	}
}
