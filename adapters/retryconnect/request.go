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
	s.write.Lock() // so that the receiver does not open another stream meanwhile
	defer s.write.Unlock()
	s.request = m
	if message, ok := m.(proto.Message); ok {
		s.request = proto.Clone(message) // the caller may fill it anew
	}
	current, _ := s.state()
	if err := current.Send(m); err != nil {
		return s.later(current, err)
	}
	return nil
}

// CloseRequest implements [connect.StreamingClientConn].
func (s *stream) CloseRequest() error {
	s.write.Lock()
	defer s.write.Unlock()
	s.closed = true
	current, _ := s.state()
	if err := current.CloseRequest(); err != nil && s.later(current, err) != io.EOF { //nolint:errorlint // ours
		return err
	}
	return nil
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
