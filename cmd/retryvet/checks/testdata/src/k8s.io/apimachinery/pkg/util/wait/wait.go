// Package wait stands for the one of Kubernetes.
package wait

import "time"

func Jitter(d time.Duration, maxFactor float64) time.Duration { return d }
