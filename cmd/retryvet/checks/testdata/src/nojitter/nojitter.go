package nojitter

import (
	"math/rand"
	"net/http"
	"time"
)

func same(d time.Duration) (*http.Response, error) {
	for {
		resp, err := http.Get("http://x")
		if err == nil {
			return resp, nil
		}
		time.Sleep(d) // want `add jitter`
		d *= 2
	}
}

func spread(d time.Duration) (*http.Response, error) {
	for {
		resp, err := http.Get("http://x")
		if err == nil {
			return resp, nil
		}
		time.Sleep(d + time.Duration(rand.Int63n(int64(d))))
	}
}

func local(d time.Duration, call func() error) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		time.Sleep(d)
	}
}
