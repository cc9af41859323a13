// Package repocheck has the tests about the repository itself: who may import what, and
// that the code, the commands and the links in its documents are right.
package repocheck
