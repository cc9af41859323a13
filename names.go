package retry

import (
	"fmt"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// names has the names of a small enumeration, in the order of its values.
type names[T ~uint8] []string

func (n names[T]) of(v T) string {
	if int(v) < len(n) {
		return n[v]
	}
	return fmt.Sprintf("%s(%d)", n[0], uint8(v))
}

func (n names[T]) parse(what, text string) (T, error) {
	for i, name := range n {
		if name == text {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("retry: unknown %s %s", what, show.Quote(text))
}
