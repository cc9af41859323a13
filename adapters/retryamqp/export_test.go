package retryamqp

// Rounded returns the time of the wait queue for a delay, in milliseconds.
var Rounded = rounded

// Forget has the queues of copies declared again.
func (r *Retries) Forget() {
	r.copies.mu.Lock()
	defer r.copies.mu.Unlock()
	clear(r.copies.declared)
}
