package strictjson

import (
	"bytes"
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

// Locate adds their lines to the faults of a document that was decoded from data. If all
// of it is in one line, they stay as they are.
func (f *Faults) Locate(data []byte, document any) {
	if len(*f) == 0 || !bytes.Contains(data, []byte("\n")) {
		return
	}
	noted := (*f)[:min(len(*f), MostFaults)] // without "and more"
	paths := make([][]string, len(noted))
	for i, fault := range noted {
		paths[i] = Find(document, fault.Error(), nil)
	}
	for i, place := range Places(data, paths) {
		noted[i] = fmt.Errorf("%w (line %d of the policy)", noted[i], place.Line)
	}
}

// full reports whether no further fault is noted.
func (f *Faults) full() bool { return len(*f) > MostFaults }
