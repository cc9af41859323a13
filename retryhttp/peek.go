package retryhttp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// peekTime is the longest time to wait for the body that may say why a request failed. Bodies
// of failures nearly always come with the headers.
const peekTime = 500 * time.Millisecond

// peek reads the body of a response for what it says about retries. All of the body stays
// readable: what has come is kept, and what has not come in time is read by the caller.
func peek(resp *http.Response) bodyAnswer {
	contentType := get(resp.Header, "Content-Type")
	value := isJSON(contentType)
	if resp.Body == http.NoBody || resp.ContentLength == 0 || resp.ContentLength > maxHintBody || !value && !isXML(contentType) {
		return bodyAnswer{}
	}
	p := &peeked{src: resp.Body, done: make(chan struct{})}
	go p.fill(value && get(resp.Header, "Content-Encoding") == "")
	resp.Body = p
	timer := time.NewTimer(peekTime)
	defer timer.Stop()
	select {
	case <-p.done:
		if len(p.data) <= maxHintBody {
			p.says = readAnswer(resp.Header, p.data)
		}
	case <-timer.C:
		p.late.Store(true)
	}
	return p.says
}

// said returns what a body says that was peeked at before.
func said(body io.ReadCloser) bodyAnswer {
	if p, ok := body.(*peeked); ok {
		return p.says
	}
	return bodyAnswer{}
}

// peeked is a body whose beginning was read.
type peeked struct {
	src  io.ReadCloser
	says bodyAnswer

	late atomic.Bool   // fill reads no more
	done chan struct{} // closed when fill has ended; the fields below are its own until then

	data  []byte // what was read and not yet given to the caller
	err   error  // of src, after data
	panic any    // of src
}

// fill reads the beginning of the body: a JSON value if it is to stop there, because the body
// may not end for long, or else all up to a limit. It runs on a goroutine of its own, because
// a Read cannot be interrupted without losing the rest of the body.
func (p *peeked) fill(value bool) {
	defer close(p.done)
	defer func() { p.panic = recover() }()
	if value {
		var raw json.RawMessage
		_ = json.NewDecoder(bufio.NewReader(filling{p})).Decode(&raw) // which may ask for a few bytes only
	} else {
		_, _ = io.Copy(io.Discard, filling{p})
	}
}

// filling keeps what is read.
type filling struct{ *peeked }

var errEnough = errors.New("enough")

func (f filling) Read(b []byte) (int, error) {
	if f.late.Load() || len(f.data) > maxHintBody {
		return 0, errEnough
	}
	n, err := f.src.Read(b[:min(len(b), maxHintBody+1-len(f.data))])
	f.data, f.err = append(f.data, b[:n]...), err
	return n, err
}

// Read waits for the Read that is under way, as it would have to itself.
func (p *peeked) Read(b []byte) (int, error) {
	<-p.done
	if len(p.data) > 0 {
		n := copy(b, p.data)
		p.data = p.data[n:]
		return n, nil
	}
	switch {
	case p.panic != nil:
		panic(p.panic)
	case p.err != nil:
		return 0, p.err
	default:
		return p.src.Read(b)
	}
}

// Close ends a Read that is under way.
func (p *peeked) Close() error {
	p.late.Store(true)
	return p.src.Close()
}
