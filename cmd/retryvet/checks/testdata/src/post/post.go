package post

import (
	"bytes"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

func createOrder(client *http.Client, order []byte, d time.Duration) (*http.Response, error) {
	for {
		req, err := http.NewRequest(http.MethodPost, "http://shop/orders", bytes.NewReader(order)) // want `may be done twice`
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func sendInvite(client *retryablehttp.Client, body []byte) (*http.Response, error) {
	return client.Post("http://x/invites", "text/plain", body) // want `go-retryablehttp repeats this POST`
}

// What follows is in order.

func createWithKey(client *http.Client, order []byte, key string, d time.Duration) (*http.Response, error) {
	for {
		req, err := http.NewRequest(http.MethodPost, "http://shop/orders", bytes.NewReader(order))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := client.Do(req)
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func search(client *http.Client, query []byte, d time.Duration) (*http.Response, error) {
	for {
		resp, err := client.Post("http://x/search", "application/json", bytes.NewReader(query))
		if err == nil {
			return resp, nil
		}
		time.Sleep(d)
	}
}

func createOnce(client *http.Client, order []byte) (*http.Response, error) {
	return client.Post("http://shop/orders", "application/json", bytes.NewReader(order))
}
