package httppeers_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"testing"

	"github.com/seed-5ff3c98e/retry/lab/httppeers"
)

// The raw output says what it was measured with: testing prints the rest.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		fmt.Println("go:", runtime.Version())
	}
	os.Exit(m.Run())
}

func BenchmarkLayerGet(b *testing.B)     { benchStub(b, get, get.layer) }
func BenchmarkLayerPost(b *testing.B)    { benchStub(b, post, post.layer) }
func BenchmarkLayerGet503(b *testing.B)  { benchStub(b, get503, get503.layer) }
func BenchmarkLayerPost503(b *testing.B) { benchStub(b, post503, post503.layer) }

func BenchmarkCustomGet(b *testing.B)     { benchStub(b, get, get.custom) }
func BenchmarkCustomPost(b *testing.B)    { benchStub(b, post, post.custom) }
func BenchmarkCustomGet503(b *testing.B)  { benchStub(b, get503, get503.custom) }
func BenchmarkCustomPost503(b *testing.B) { benchStub(b, post503, post503.custom) }

func BenchmarkLoopbackGet(b *testing.B)     { benchLoopback(b, get) }
func BenchmarkLoopbackPost(b *testing.B)    { benchLoopback(b, post) }
func BenchmarkLoopbackGet503(b *testing.B)  { benchLoopback(b, get503) }
func BenchmarkLoopbackPost503(b *testing.B) { benchLoopback(b, post503) }

// shuffled is because one contestant's garbage is collected at the expense of the
// next: over many rounds, none always follows the same one.
func shuffled() []httppeers.Peer {
	peers := httppeers.Peers()
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	return peers
}

func benchStub(b *testing.B, w workload, open func() (base http.RoundTripper, url string)) {
	b.Helper()
	for _, p := range shuffled() {
		b.Run("by="+p.Name, func(b *testing.B) {
			base, url := open()
			measure(b, w.prepare(b, p, base, url), func() {})
		})
	}
}

func benchLoopback(b *testing.B, w workload) {
	b.Helper()
	for _, p := range shuffled() {
		b.Run("by="+p.Name, func(b *testing.B) {
			base, url := w.loopback(b)
			if p.Leaks == 0 {
				measure(b, w.prepare(b, p, base, url), func() {})
				return
			}
			// What it leaves open is closed every now and then, when nobody looks.
			j := &janitor{base: base}
			const calls = 100
			n := 0
			measure(b, w.prepare(b, p, j, url), func() {
				if n++; n%calls == 0 {
					b.StopTimer()
					j.clean()
					b.StartTimer()
				}
			})
			j.clean()
		})
	}
}

func measure(b *testing.B, call httppeers.Call, after func()) {
	b.Helper()
	trip(b, call) // connects
	b.ReportAllocs()
	for b.Loop() {
		trip(b, call)
		after()
	}
}

// trip makes a call as a user does who wants to know what the answer was.
func trip(tb testing.TB, call httppeers.Call) {
	tb.Helper()
	resp, err := call()
	if err != nil {
		tb.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		tb.Fatal(resp.Status)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
