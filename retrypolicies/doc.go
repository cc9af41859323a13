// Package retrypolicies gives policies names, in a file that may change while the
// program runs:
//
//	{
//	  "default":  {"max_attempts": 4, "attempt_timeout": "5s"},
//	  "policies": {
//	    "payments": {"non_idempotent": true},
//	    "search":   {"max_attempts": 2, "backoff": {"constant": "100ms"}}
//	  }
//	}
//
// The policies have the form of [retry.Policy.MarshalJSON]. A policy inherits from the
// default the settings that it does not have. [Policies] loads such a file as a whole: if
// the file has faults, all of them are reported with line and column, or the first hundred,
// and the current policies stay.
//
// A file cannot have budgets, observers and the like. Attach them in code to the name of a
// policy, as [Parts]; they stay the same after a reload.
//
// The file is JSON. [Policies.UnmarshalYAML] takes YAML from any library that honors the
// method. The program decides when to load the file again, for example after a signal or
// a change of the file.
package retrypolicies
