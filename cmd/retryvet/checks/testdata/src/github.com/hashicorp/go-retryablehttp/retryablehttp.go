// Package retryablehttp is a stub.
package retryablehttp

import "net/http"

type Client struct{}

func (*Client) Post(url, bodyType string, body any) (*http.Response, error) { return nil, nil }
func (*Client) Get(url string) (*http.Response, error)                      { return nil, nil }
