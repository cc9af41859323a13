//go:build !linux && !windows

package retryexec

import "os"

// awaitExit returns false: here a process can be waited for and reaped at once
// only.
func awaitExit(*os.Process) bool { return false }
