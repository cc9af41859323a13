// Package retrypolicies gives policies names, in a file that may be exchanged while
// the program runs:
//
//	{
//	  "default":  {"max_attempts": 4, "attempt_timeout": "5s"},
//	  "policies": {
//	    "payments": {"non_idempotent": true},
//	    "search":   {"max_attempts": 2, "backoff": {"constant": "100ms"}}
//	  }
//	}
//
// The policies have the form of [retry.Policy.MarshalJSON], and each one inherits
// from the default what it does not set itself. [Policies] loads such a file as a
// whole: if anything is wrong with it, all faults are reported with line and column, or
// the first hundred of them, and the policies stay what they were.
//
// What is no data, such as a budget or an observer, is attached in code to the name
// of a policy, as [Parts], and is the same before and after a reload.
//
// The file is JSON. [Policies.UnmarshalYAML] takes YAML from any library that
// honors the method. When to load it again, after a signal or a change of the file,
// is up to the program.
package retrypolicies
