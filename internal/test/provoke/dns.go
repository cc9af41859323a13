package provoke

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
)

// The response codes of DNS, RFC 1035, section 4.1.1.
const (
	DNSServerFailure = 2
	DNSNoSuchName    = 3
)

// Resolver returns a resolver that asks a DNS server of the test. The server sends
// the result of answer, or nothing if it is empty.
func Resolver(t testing.TB, answer func(query []byte) []byte) *net.Resolver {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, client, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := answer(buffer[:n]); len(reply) > 0 {
				_, _ = server.WriteTo(reply, client)
			}
		}
	}()
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}
}

// DNSSilence never answers.
func DNSSilence([]byte) []byte { return nil }

// DNSCode answers with a response code and no records.
func DNSCode(code byte) func(query []byte) []byte {
	const head = 12
	const response, recursionAvailable = 0x80, 0x80
	return func(query []byte) []byte {
		if len(query) < head {
			return nil
		}
		reply := slices.Clone(query)
		reply[2] |= response
		reply[3] = recursionAvailable | code
		binary.BigEndian.PutUint16(reply[10:], 0) // no additional records, as EDNS0 has them
		return reply[:min(len(reply), questionEnd(reply))]
	}
}

// questionEnd returns where the only question of a DNS message ends.
func questionEnd(message []byte) int {
	i := 12
	for i < len(message) && message[i] != 0 {
		i += 1 + int(message[i])
	}
	return i + 5
}
