// Package clientstest runs API clients of other people, as they are, over a
// [retryhttp.Transport] and against servers that misbehave.
//
// The retries of the clients themselves are off, so that it is the Transport that
// retries. docs/sdks.md says how, and what happens otherwise.
//
// # What a Transport can send again
//
// All of them hand over JSON with a GetBody, and that is sent again. Uploads they
// do not: minio-go, the AWS SDK, and go-github for release assets wrap what they
// upload in readers of their own, without GetBody, and hide its Seek. A Transport
// sends such a request once, unless its BufferBody covers it; otherwise keep the
// client's own retries for these.
//
// [retryhttp.Transport]: https://pkg.go.dev/github.com/seed-5ff3c98e/retry/retryhttp#Transport
package clientstest
