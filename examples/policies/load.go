package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// load is a number of clients that call a service, one call after the other.
type load struct {
	url         string
	good, bad   atomic.Int64
	stop        chan struct{}
	once        sync.Once
	clients     sync.WaitGroup
	connections http.Client
}

// startLoad starts the clients. The method end ends them.
func startLoad(url string, clients int) *load {
	l := &load{url: url, stop: make(chan struct{})}
	l.connections.Transport = &http.Transport{MaxIdleConnsPerHost: clients}
	for range clients {
		l.clients.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
					l.call()
				}
			}
		})
	}
	return l
}

func (l *load) call() {
	resp, err := l.connections.Get(l.url) //nolint:noctx // it ends with the server
	if err != nil {
		l.bad.Add(1)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(body) != "hello" {
		l.bad.Add(1)
		return
	}
	l.good.Add(1)
}

// end ends the clients after the calls that they are making.
func (l *load) end() {
	l.once.Do(func() { close(l.stop) })
	l.clients.Wait()
	l.connections.CloseIdleConnections()
}

func (l *load) calls() int { return int(l.good.Load() + l.bad.Load()) }

func (l *load) lost() int { return int(l.bad.Load()) }

// watch loads a file again whenever its content differs from seen, until the context
// ends. It sends the result of each load: nil, or the error because of which the
// policies stay the same. It reads the file ten times a second, which works on every
// file system, also for a ConfigMap of Kubernetes. If a signal announces a new file,
// load it at the signal instead.
func watch(ctx context.Context, file string, seen []byte, policies *retrypolicies.Policies, reloads chan<- error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		data, err := os.ReadFile(file)
		if err != nil || bytes.Equal(data, seen) {
			continue // a file that is missing for a moment changes nothing
		}
		seen = data
		select {
		case reloads <- policies.Load(file, data):
		case <-ctx.Done():
			return
		}
	}
}
