package retryconnect

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"
)

// Send implements [connect.StreamingClientConn].
func (s *stream) Send(m any) error {
	current, err := s.send(func(current *attempt) error {
		s.request = m
		if message, ok := m.(proto.Message); ok {
			s.request = proto.Clone(message) // the caller may fill it anew
		}
		return current.Send(m)
	})
	if err != nil && !errors.Is(err, io.EOF) {
		s.refuse(current, err)
	}
	return err
}

// CloseRequest implements [connect.StreamingClientConn].
func (s *stream) CloseRequest() error {
	current, err := s.send(func(current *attempt) error {
		s.closed = true
		return current.CloseRequest()
	})
	if err == nil || err == io.EOF { //nolint:errorlint // ours
		return nil
	}
	s.refuse(current, err)
	return err
}

// send calls fn to send something to the stream that is open.
func (s *stream) send(fn func(*attempt) error) (current *attempt, err error) {
	s.write.Lock() // so that the receiver does not open another stream meanwhile
	defer s.write.Unlock()
	current, _ = s.enter()
	defer s.leave(current)
	if err = fn(current); err != nil {
		err = s.later(current, err)
	}
	return current, err
}

// later is the error of a request: io.EOF, which stands for what Receive will say, if a
// timeout has ended the attempt, because another one may follow.
func (s *stream) later(current *attempt, err error) error {
	if _, done := s.state(); !done && current.ctx.Err() != nil && s.ctx.Err() == nil {
		return io.EOF
	}
	return err
}

// resume sends the request again.
func (s *stream) resume(current *attempt) (err error) {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	s.current = current
	s.mu.Unlock()
	header := current.RequestHeader()
	maps.Copy(header, s.added())
	header.Set(previousAttempts, strconv.Itoa(s.call.Attempt()-1))
	if s.request != nil {
		err = current.Send(s.request)
	}
	if errors.Is(err, io.EOF) {
		err = nil // Receive has the reason
	}
	if err == nil && s.closed {
		err = current.CloseRequest()
	}
	return err
}

// added returns what the caller has added to the header of the first request.
func (s *stream) added() http.Header {
	added := http.Header{}
	for key, values := range s.header {
		if !s.own[key] {
			added[key] = values
		}
	}
	return added
}
