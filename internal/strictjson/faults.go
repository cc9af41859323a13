package strictjson

import (
	"errors"
	"fmt"
)

// Faults collects everything that is wrong with a document.
type Faults []error

// MostFaults is how many faults are noted. It keeps the error readable, and the work
// small if everything is wrong with a long document.
const MostFaults = 100

// Add notes a fault of the field at path. Of the faults after [MostFaults] it notes only
// that there are more.
func (f *Faults) Add(path string, value any, problem string) {
	switch {
	case f.full():
	case len(*f) == MostFaults:
		*f = append(*f, errors.New("and more"))
	default:
		*f = append(*f, fmt.Errorf("%s: %v: %s", path, value, problem))
	}
}

// full reports whether no further fault is noted.
func (f *Faults) full() bool { return len(*f) > MostFaults }
