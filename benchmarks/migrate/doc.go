// Package migrate holds what docs/migrate.md shows: for each of the libraries that programs
// come from, a piece of code before and after. Its tests run both, and compare attempts,
// waits and ends. It has tests only.
package migrate
