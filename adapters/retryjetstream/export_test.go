package retryjetstream

// Recount has r handle messages as those of an old server.
func (r *Retries) Recount() {
	r.begin.Do(func() { r.fault = r.check() })
	r.recounts = true
}
