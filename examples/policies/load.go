package main

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
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
