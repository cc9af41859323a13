// Package browsertest tests the playground in a browser. It is a module of its own
// because the driver of the browser is a third-party library.
package browsertest
