package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Progress is how far the nodes have come, by their names: what a run that was interrupted
// leaves for the next one. A node that failed is not in it, and so begins anew.
type Progress map[string]NodeProgress

// NodeProgress is how far a node has come. The attempt that the interrupt killed does not count.
type NodeProgress struct {
	Completed bool        `json:"completed,omitempty"`
	Output    string      `json:"output,omitempty"`
	State     retry.State `json:"state,omitzero"`
	At        time.Time   `json:"at,omitzero"` // when the next attempt is due
}

// read reads the file of an earlier run, if there is one.
func (p Progress) read(file string) error {
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return fmt.Errorf("-resume: %s: %w", file, err)
	}
	return nil
}

// write replaces the file with what is left to do, and removes it if that is nothing.
func (p Progress) write(file string, interrupted bool) error {
	if file == "" {
		return nil
	}
	if !interrupted {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
