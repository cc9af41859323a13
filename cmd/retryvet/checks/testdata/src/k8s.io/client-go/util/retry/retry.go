// Package retry stands for the one of Kubernetes.
package retry

func RetryOnConflict(backoff int, fn func() error) error { return nil }
