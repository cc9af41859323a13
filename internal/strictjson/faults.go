package strictjson

import (
	"errors"
	"fmt"
	"time"
)

// Faults collects everything that is wrong with a document.
type Faults []error

// Add notes a fault of the field at path.
func (f *Faults) Add(path string, value any, problem string) {
	const most = 100 // keeps the error readable
	if len(*f) >= most {
		if len(*f) == most {
			*f = append(*f, errors.New("and more"))
		}
		return
	}
	*f = append(*f, fmt.Errorf("%s: %v: %s", path, value, problem))
}

// NotNegative notes a duration that is negative.
func (f *Faults) NotNegative(path string, d time.Duration) {
	if d < 0 {
		f.Add(path, d, "must not be negative")
	}
}
