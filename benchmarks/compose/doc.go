// Package compose holds what docs/compose.md shows: a policy with a circuit breaker, a rate
// limiter, a bulkhead, a hedge and a fallback, around it and inside. It has tests only.
package compose
