package stack_test

import (
	"os"
	"strings"
	"testing"

	"github.com/seed-5ff3c98e/retry/internal/stack"
)

func recovered(fn func()) (s []byte) {
	defer func() {
		_ = recover()
		s = stack.OfPanic()
	}()
	fn()
	return nil
}

func faulty() { panic("here") }

func twice() {
	defer func() { panic("again") }()
	panic("first")
}

func TestOfPanic(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fn    func()
		first string
	}{
		"panic":          {faulty, ".faulty()"},
		"of the runtime": {func() { _ = []int{}[len(os.Args)] }, ".TestOfPanic."},
		"repanic":        {twice, ".twice.func1()"},
		"without":        {func() {}, "debug.Stack()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(string(recovered(tt.fn)), "\n")
			if !strings.HasPrefix(lines[0], "goroutine ") {
				t.Errorf("the first line is %q", lines[0])
			}
			if !strings.Contains(lines[1], tt.first) {
				t.Errorf("the first frame is %q, not %q", lines[1], tt.first)
			}
		})
	}
}
