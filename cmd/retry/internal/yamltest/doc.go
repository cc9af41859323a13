// Package yamltest tests the YAML form of a retry.Policy with the YAML libraries
// of Go. The library knows YAML by two method names only, so they are requirements of the
// command alone.
package yamltest
