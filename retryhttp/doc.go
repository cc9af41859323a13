// Package retryhttp retries HTTP requests beneath an [http.Client]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
// [Transport] is an [http.RoundTripper], so the rest of the program stays as it
// is. The decisions are those of a [retry.Policy]; this package adds what is
// particular to HTTP: which requests may be sent twice, how their bodies are
// sent again, what becomes of the responses in between, and how servers say
// when to come back ([ParseHint]).
package retryhttp
