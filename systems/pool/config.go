package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/seed-5ff3c98e/retry"
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
	var faults []error
	check := func(name string, value, low, high float64) {
		if value != math.Trunc(value) || value < low || value > high {
			faults = append(faults, fmt.Errorf("%s: %v: must be a whole number from %v to %v", name, value, low, high))
		}
	}
	check("workers", c.Workers, 1, 1000)
	check("timeout_seconds", c.TimeoutSeconds, 0, day)
	check("retry.max_attempts", c.Retry.MaxAttempts, 1, 1000)
	check("retry.init_delay_seconds", c.Retry.InitDelaySeconds, 1, day)
	check("retry.max_delay_seconds", c.Retry.MaxDelaySeconds, 1, day)
	if m := c.Retry.Multiplier; !(1 <= m && m <= 1000) { // so that NaN is wrong too
		faults = append(faults, fmt.Errorf("retry.multiplier: %v: must be from 1 to 1000", m))
	}
	return c, errors.Join(faults...)
}

// Policy returns the policy of all nodes.
func (c RetryConfig) Policy(observer retry.Observer) *retry.Policy {
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
