package retrykafka

const Most = most

type (
	Progress  = progress
	Mark      = mark
	StateText = stateText
)

// Commit returns what is committed.
func Commit(p Progress) (offset int64, metadata string) { return p.commit() }

// ProgressOf reads what was committed.
var ProgressOf = progressOf

// Ended reports whether the record with an offset has ended, by what was committed.
func Ended(committed int64, metadata *string, offset int64) bool {
	p := progressOf(committed, metadata)
	for _, m := range p.Marks {
		if m.Offset == offset {
			return false
		}
	}
	return offset < p.Next
}
