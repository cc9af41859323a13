package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// Config is the configuration file.
type Config struct {
	Workers        float64     `yaml:"workers"`
	TimeoutSeconds float64     `yaml:"timeout_seconds"` // of one attempt; 0: none
	Retry          RetryConfig `yaml:"retry"`
	Nodes          []Node      `yaml:"nodes"`
}

// RetryConfig is the section retry. The numbers are whole except for the
// Multiplier. They are not ints, because the YAML library reads 1.5 as the int 1.
type RetryConfig struct {
	MaxAttempts      float64 `yaml:"max_attempts"` // the first included
	InitDelaySeconds float64 `yaml:"init_delay_seconds"`
	Multiplier       float64 `yaml:"multiplier"`
	MaxDelaySeconds  float64 `yaml:"max_delay_seconds"`
}

// parse reads a configuration. Missing settings have defaults; an error names
// each wrong setting with its value.
func parse(text []byte) (*Config, error) {
	c := &Config{
		Workers: 4,
		Retry:   RetryConfig{MaxAttempts: 3, InitDelaySeconds: 2, Multiplier: 2, MaxDelaySeconds: 30},
	}
	documents := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := documents.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := documents.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("a second document: there must be one"), err)
	}
	if len(c.Nodes) == 0 {
		return nil, errors.New("nodes: []: must not be empty")
	}
	const day = 24 * 3600
	return c, errors.Join(
		whole("workers", c.Workers, 1, 1000),
		whole("timeout_seconds", c.TimeoutSeconds, 0, day),
		whole("retry.max_attempts", c.Retry.MaxAttempts, 1, 1000),
		whole("retry.init_delay_seconds", c.Retry.InitDelaySeconds, 1, day),
		whole("retry.max_delay_seconds", c.Retry.MaxDelaySeconds, 1, day),
		shared.Must(1 <= c.Retry.Multiplier && c.Retry.Multiplier <= 1000, "retry.multiplier", c.Retry.Multiplier,
			"be from 1 to 1000"),
	)
}

func whole(name string, value, low, high float64) error {
	return shared.Must(value == math.Trunc(value) && low <= value && value <= high, name, value,
		fmt.Sprintf("be a whole number from %v to %v", low, high))
}

// Policy returns the policy of all nodes.
func (c RetryConfig) Policy(observer *retry.Observer) *retry.Policy {
	return &retry.Policy{
		Name:        "task",
		MaxAttempts: int(c.MaxAttempts),
		Backoff:     retry.Exponential{Initial: seconds(c.InitDelaySeconds), Multiplier: c.Multiplier},
		MaxDelay:    seconds(c.MaxDelaySeconds),
		Jitter:      retry.NoJitter, // the exact waits are required
		Classifier:  rules.Classify,
		Observer:    observer,
	}
}

func seconds(n float64) time.Duration { return time.Duration(n) * time.Second }

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
