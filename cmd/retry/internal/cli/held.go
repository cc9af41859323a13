package cli

import (
	"io"
	"sync"
)

// held is the standard output of one run, which is kept back.
type held struct {
	mu   sync.Mutex // a process that the run has left behind may still write
	kept store
	err  error // the first of the store: what it has is not all
}

func newHeld() *held { return &held{kept: store{name: "stdout"}} }

// Write implements [io.Writer].
func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.kept.Write(p)
	if h.err == nil {
		h.err = err
	}
	return n, err
}

// fault returns why not all of the output could be kept.
func (h *held) fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// passOn writes the output, if there was a run.
func (h *held) passOn(w io.Writer) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept.writeTo(w)
}

// close removes what was kept.
func (h *held) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept.close()
}
