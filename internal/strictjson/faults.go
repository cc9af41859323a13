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

// fault is one thing that is wrong.
type fault struct {
	path *Path
	text string
}

func (f *fault) Error() string { return f.text }

// Add notes a fault of the field at path, whose value is fit to be shown. Of the faults
// after [MostFaults] it notes only that there are more.
func (f *Faults) Add(path *Path, value any, problem string) {
	switch {
	case f.full():
	case len(*f) == MostFaults:
		*f = append(*f, errors.New("and more"))
	case path == nil:
		*f = append(*f, &fault{nil, fmt.Sprintf("policy: %v: %s", value, problem)})
	default:
		*f = append(*f, &fault{path, fmt.Sprintf("%s: %v: %s", path, value, problem)})
	}
}

// Locate adds their lines to the faults of a document that was decoded from data. If all
// of it is in one line, they stay as they are.
func (f *Faults) Locate(data []byte) {
	if len(*f) == 0 || !bytes.Contains(data, []byte("\n")) {
		return
	}
	noted := (*f)[:min(len(*f), MostFaults)] // without "and more"
	paths := make([][]string, len(noted))
	for i, fault := range noted {
		paths[i] = PathOf(fault)
	}
	for i, place := range Places(data, paths) {
		noted[i] = fmt.Errorf("%w (line %d of the policy)", noted[i], place.Line)
	}
}

// PathOf returns the path of a fault, by keys and, in lists, indexes.
func PathOf(err error) []string {
	if f := (*fault)(nil); errors.As(err, &f) {
		return f.path.keys()
	}
	return nil
}

// full reports whether no further fault is noted.
func (f *Faults) full() bool { return len(*f) > MostFaults }
