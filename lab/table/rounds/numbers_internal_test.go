package rounds

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0.5: "0.50", 1: "1.00", 9.994: "9.99", 12.34: "12.3", 123.4: "123"} {
		assert.Equal(t, want, three(x))
	}
	for x, want := range map[float64]string{0: "0", 3: "3", 2.5: "2.50", 83211.4: "83211"} {
		assert.Equal(t, want, whole(x))
	}
}
