package cli

import "runtime/debug"

// version returns the version of the module, as "go install" knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
