package retryjetstream

// Recount has r handle messages as those of an old server.
func (r *Retries) Recount() { r.recounts = true }
