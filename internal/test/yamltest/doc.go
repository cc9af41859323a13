// Package yamltest tests the YAML form of a retry.Policy with the YAML libraries
// of Go. It has a module of its own, so that they are not requirements of the
// library, which knows YAML by two method names only.
package yamltest
