// Package httppeers compares what retrying costs an HTTP client: by hand, with
// retryhttp, and with the libraries that do it.
//
// Layer benchmarks have a stub under the real http.Transport, so that there is
// nothing else to see; those over loopback have a server and are what a caller
// gets. Every call is the one a user makes: Do of an http.Client whose Transport
// retries, or of the library's own client. A request is prepared once where the
// API lets it be sent again.
//
// All of them make at most three attempts, retry whatever the method, and wait
// for 1ns on a real timer: this is as short as all of them can do alike.
// same_test.go proves that they send the same and get the same. What is left is in
// the [Peer.Note] of a contestant.
package httppeers
