package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func main() {
	answers := []int{503, 429, 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	client := &http.Client{Transport: &retryhttp.Transport{}}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", retryhttp.Attempts(resp), "attempts")
}
