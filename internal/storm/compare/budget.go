package compare

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Budget is the value of a flag: the settings of a [retry.Budget]. The zero Budget is
// none.
type Budget struct {
	ratio   float64
	ttl     time.Duration
	reserve int
}

// defaultBudget is that of the zero [retry.Budget].
var defaultBudget = Budget{0.1, 5 * time.Second, 3}

const off = "off"

// String implements [flag.Value].
func (b *Budget) String() string {
	if *b == (Budget{}) {
		return off
	}
	return fmt.Sprintf("%v/%v/%d", b.ratio, b.ttl, b.reserve)
}

// Set implements [flag.Value].
func (b *Budget) Set(text string) error {
	if text == off {
		*b = Budget{}
		return nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return fmt.Errorf("want ratio/ttl/reserve, such as %v, or %s", &defaultBudget, off)
	}
	var read Budget
	var err error
	if read.ratio, err = strconv.ParseFloat(parts[0], 64); err != nil || !(read.ratio > 0 && read.ratio <= 1) {
		return errors.New("the ratio must be above 0 and at most 1")
	}
	if read.ttl, err = time.ParseDuration(parts[1]); err != nil || read.ttl <= 0 {
		return errors.New("the ttl must be a positive duration, such as 5s")
	}
	if read.reserve, err = strconv.Atoi(parts[2]); err != nil || read.reserve < 0 {
		return errors.New("the reserve must be a number of retries, 0 or more")
	}
	*b = read
	return nil
}

// make returns what makes the budget of a client, or nil if there is none.
func (b *Budget) make() func() *retry.Budget {
	if *b == (Budget{}) {
		return nil
	}
	reserve := b.reserve
	if reserve == 0 {
		reserve = retry.NoReserve
	}
	return func() *retry.Budget { return &retry.Budget{Ratio: b.ratio, TTL: b.ttl, Reserve: reserve} }
}
