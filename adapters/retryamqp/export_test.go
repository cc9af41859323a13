package retryamqp

import "time"

// Rounded returns the time of the wait queue for a delay, in milliseconds.
func Rounded(delay time.Duration) int64 {
	return (&Retries{}).waiting(delay).args["x-message-ttl"].(int64) //nolint:forcetypeassert // it is one
}

// Forget has the queues of copies declared again.
func (r *Retries) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.declared)
}
