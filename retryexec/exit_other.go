//go:build !linux && !windows

package retryexec

import "os"

// awaitExit returns false: on this system, waiting for a process also reaps it.
func awaitExit(*os.Process) bool { return false }
