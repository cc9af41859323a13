// Package browsertest tests the playground in a browser. Its module is that of
// the site, because the driver of the browser is a third-party library.
package browsertest
