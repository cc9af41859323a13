package known

// Mongo reads the error labels of a MongoDB server.
//
// https://github.com/mongodb/specifications/tree/master/source/retryable-writes
func Mongo(has func(label string) bool) (v Fact) {
	switch {
	case has("SystemOverloadedError") && has("RetryableError"):
		v = Throttled("mongo_overloaded")
	case has("TransientTransactionError"): // the whole transaction
		v = Unapplied("mongo_transaction")
	case has("RetryableWriteError"), has("RetryableError"):
		v = Transient("mongo_transient")
	case has("UnknownTransactionCommitResult"): // the commit alone
		v = Transient("mongo_commit")
	default:
		return Fact{}
	}
	v.Flags = v.Flags.With(NotApplied, has("NoWritesPerformed"))
	return v
}
