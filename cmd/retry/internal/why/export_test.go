package why

import "github.com/seed-5ff3c98e/retry"

// Tables are the tables of docs/why.md.
var Tables = tables

// Reasons returns the reasons that are explained.
func Reasons() (reasons []retry.StopReason) {
	for _, s := range stops {
		reasons = append(reasons, s.reason)
	}
	return reasons
}
