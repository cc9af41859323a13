// Package browsertest tests the playground in a browser. It is in the module of
// the site, because the driver of the browser is a third-party library.
package browsertest
