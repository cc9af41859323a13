// Package retryhttp retries HTTP requests beneath an [http.Client]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
// [Transport] is an [http.RoundTripper], so the rest of the program stays as it
// is. A [retry.Policy] decides. This package adds the rules of HTTP: it knows
// which requests may be sent twice, sends their bodies again, discards the
// responses in between, and reads the hints of servers ([ParseHint]).
package retryhttp
