package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

const chaosAttempts = 8

// chaosDice is a source of chance for several goroutines.
type chaosDice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newChaosDice(seed, stream uint64) *chaosDice {
	return &chaosDice{r: rand.New(rand.NewPCG(seed, stream))} //nolint:gosec // chance, no secret
}

func (d *chaosDice) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}

func (d *chaosDice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// chaosProxy passes HTTP/1 on between a client and a server, byte for byte, and
// fails at it: 20 % of the requests are reset, 20 % come late, and the answers to
// 20 % are cut off.
type chaosProxy struct {
	*provoke.Server

	backend string
	dice    *chaosDice
	faults  [5]atomic.Int64 // how often each happened
}

const (
	chaosNone = iota
	chaosResetBefore
	chaosResetAfter // the server has acted
	chaosLate
	chaosTruncate
)

func newChaosProxy(t *testing.T, backend string, dice *chaosDice) *chaosProxy {
	t.Helper()
	p := &chaosProxy{backend: backend, dice: dice}
	p.Server = provoke.Serve(t, p.serve)
	return p
}

func (p *chaosProxy) fault() int {
	switch u := p.dice.float(); {
	case u < 0.1:
		return chaosResetBefore
	case u < 0.2:
		return chaosResetAfter
	case u < 0.4:
		return chaosLate
	case u < 0.6:
		return chaosTruncate
	default:
		return chaosNone
	}
}

// serve serves one connection of the client with one to the server.
func (p *chaosProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.backend)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var request, response bytes.Buffer
	fromClient := bufio.NewReader(io.TeeReader(client, &request))
	fromServer := bufio.NewReader(io.TeeReader(server, &response))
	for {
		request.Reset()
		response.Reset()
		req, err := http.ReadRequest(fromClient)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		fault := p.fault()
		p.faults[fault].Add(1)
		if fault == chaosResetBefore {
			provoke.Reset(client)
			return
		}
		if fault == chaosLate {
			late := time.Duration(p.dice.below(3000)) * time.Microsecond
			if p.dice.below(50) == 0 {
				late = 150 * time.Millisecond // for attempts with a timeout
			}
			time.Sleep(late)
		}
		if _, err := server.Write(request.Bytes()); err != nil {
			return
		}
		resp, err := http.ReadResponse(fromServer, req)
		if err != nil {
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return
		}
		switch fault {
		case chaosResetAfter:
			provoke.Reset(client)
			return
		case chaosTruncate:
			_, _ = client.Write(response.Bytes()[:p.dice.below(response.Len())])
			if p.dice.below(2) == 0 {
				provoke.Reset(client)
			}
			return
		}
		if _, err := client.Write(response.Bytes()); err != nil {
			return
		}
	}
}

// chaosServer carries out operations, or says that it is busy.
type chaosServer struct {
	t    *testing.T
	dice *chaosDice

	mu  sync.Mutex
	ops map[string]*chaosOp
	all map[string]string // which operation has an Idempotency-Key
}

// chaosOp is the server's record of an operation.
type chaosOp struct {
	applied int
	key     string
	repeats int
}

func (s *chaosServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // an attempt that was broken off
	}
	id := r.Header.Get("X-Op")
	assert.Equal(s.t, r.Header.Get("X-Sum"), chaosSum(body), "%s %s: the body is not intact", r.Method, id)
	u := s.dice.float()
	if u < 0.1 {
		// Not applied, and it says so: even a POST may come again.
		if s.dice.below(2) == 0 {
			w.Header().Set("Retry-After", "0.001")
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "busy")
		return
	}
	if u < 0.2 {
		switch s.dice.below(3) {
		case 0:
			w.Header().Set("Retry-After-Ms", "1")
		case 1:
			s.apply(r, id) // a 503 without a hint promises nothing
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy")
		return
	}
	s.apply(r, id)
	answer := chaosBody(id, s.dice.below(3000))
	w.Header().Set("X-Sum", chaosSum(answer))
	if s.dice.below(2) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	} else {
		_ = http.NewResponseController(w).Flush() // chunks
	}
	_, _ = w.Write(answer)
}

func (s *chaosServer) apply(r *http.Request, id string) {
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.ops[id]
	if op == nil {
		op = &chaosOp{key: key}
		s.ops[id] = op
	}
	assert.Equal(s.t, op.key, key, "%s: the same key in every attempt", id)
	if key != "" {
		owner, known := s.all[key]
		assert.True(s.t, !known || owner == id, "%s: the key of %s", id, owner)
		if known {
			op.repeats++
			return
		}
		s.all[key] = id
	}
	op.applied++
}

func chaosSum(data []byte) string {
	return fmt.Sprintf("%d-%08x", len(data), crc32.ChecksumIEEE(data))
}

func chaosBody(id string, size int) []byte {
	return []byte(strings.Repeat(id+" ", size/(len(id)+1)+1)[:size])
}

// chaosSeeker can be read again, and chaosOnce cannot. http.NewRequest knows
// neither.
type (
	chaosSeeker struct{ *bytes.Reader }
	chaosOnce   struct{ io.Reader }
)

func (chaosSeeker) Close() error { return nil }

// chaosResult is the client's record of an operation.
type chaosResult struct {
	id, method string
	keyed      bool
	replayable bool
	body       bool  // the response's body is part of an attempt
	status     int   // 0 if there was none
	attempts   int   // as the response or the error says
	err        error // of the call
	bodyErr    error // of the body of a response
	polite     bool  // the Transport has a Cooldown, so that rate limits cost no attempt
}

// chaosClient has a Transport with some options.
type chaosClient struct {
	*http.Client
	transport *retryhttp.Transport
}

func chaosClients() []chaosClient {
	policy := func() *retry.Policy {
		return &retry.Policy{MaxAttempts: chaosAttempts, Backoff: retry.Constant(500 * time.Microsecond)}
	}
	timeout := policy()
	timeout.AttemptTimeout = 60 * time.Millisecond
	var clients []chaosClient
	for _, t := range []*retryhttp.Transport{
		{Policy: policy()},
		{Policy: timeout, BufferBody: 16 << 10},
		{Policy: policy(), BufferBody: 16 << 10, AttemptHeader: "X-Attempt"},
		{Policy: policy(), IdempotencyKey: retryhttp.RandomKey},
		{Policy: policy(), Cooldown: time.Millisecond, BodyHints: true},
	} {
		t.Base, t.Budget = &http.Transport{MaxIdleConnsPerHost: 4}, retryhttp.NoBudget
		clients = append(clients, chaosClient{&http.Client{Transport: t}, t})
	}
	return clients
}

// chaosCall makes one request of a random kind.
func chaosCall(t *testing.T, r *rand.Rand, c chaosClient, url, id string) chaosResult {
	t.Helper()
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPost, http.MethodPut}
	result := chaosResult{id: id, method: methods[r.IntN(len(methods))], replayable: true, body: r.IntN(2) == 0}
	var body []byte
	var reader io.Reader
	if result.method != http.MethodGet {
		body = chaosBody(id, []int{0, 10, 1000, 5000, 40000}[r.IntN(5)])
		switch r.IntN(3) {
		case 0:
			reader = bytes.NewReader(body)
		case 1:
			reader = chaosSeeker{bytes.NewReader(body)}
		default:
			reader = chaosOnce{bytes.NewReader(body)}
			result.replayable = int64(len(body)) <= c.transport.BufferBody && c.transport.BufferBody > 0
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), result.method, url, reader)
	if !assert.NoError(t, err) {
		return result
	}
	if reader != nil && r.IntN(2) == 0 && len(body) > 0 {
		req.ContentLength = int64(len(body)) // or in chunks
	}
	req.Header.Set("X-Op", id)
	req.Header.Set("X-Sum", chaosSum(body))
	result.keyed, result.polite = c.transport.IdempotencyKey != nil, c.transport.Cooldown > 0
	if result.method == http.MethodPost && !result.keyed && r.IntN(2) == 0 {
		req.Header.Set("Idempotency-Key", "key of "+id)
		result.keyed = true
	}
	read := func(resp *http.Response) error {
		result.status, result.attempts = resp.StatusCode, retryhttp.Attempts(resp)
		data, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusOK {
			assert.Equal(t, resp.Header.Get("X-Sum"), chaosSum(data), "%s: a success with a wrong body", id)
		}
		return err
	}
	if result.body {
		result.err = retryhttp.Do(c.Client, nil, req, read)
		return result
	}
	resp, err := c.Do(req)
	if result.err = err; err == nil {
		result.bodyErr = read(resp)
		_ = resp.Body.Close()
	}
	return result
}

// chaosCause reports whether an error is one that the proxy or the server has
// caused.
func chaosCause(err error) bool {
	var status *retryhttp.StatusError
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusServiceUnavailable || status.StatusCode == http.StatusTooManyRequests
	}
	for _, cause := range []error{
		syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, net.ErrClosed,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	for _, text := range []string{
		"server closed idle connection", "unexpected EOF reading trailer",
		"connection broken: malformed ", // a line of the head that was cut off: see TestChaosCutHead
	} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// check compares the client's results with the server's records.
func (s *chaosServer) check(t *testing.T, r chaosResult) {
	t.Helper()
	s.mu.Lock()
	op := s.ops[r.id]
	s.mu.Unlock()
	applied := 0
	if op != nil {
		applied = op.applied
	}
	if r.method == http.MethodPost {
		assert.LessOrEqual(t, applied, 1, "%s: POST applied twice: %+v", r.id, r)
		if !r.keyed && op != nil {
			assert.Empty(t, op.key)
		}
	}
	success := r.status == http.StatusOK
	if r.body {
		success = r.err == nil
	}
	if success {
		assert.Positive(t, applied, "%s: a success that never was: %+v", r.id, r)
	}
	for _, err := range []error{r.err, r.bodyErr} {
		if err != nil {
			assert.True(t, chaosCause(err), "%s: not what happened: %v", r.id, err)
		}
	}
	exhausted := func(attempts int) {
		if r.polite {
			assert.GreaterOrEqual(t, attempts, chaosAttempts, "%s: status %d", r.id, r.status)
		} else {
			assert.Equal(t, chaosAttempts, attempts, "%s: status %d", r.id, r.status)
		}
	}
	repeatable := r.replayable && (r.method != http.MethodPost || r.keyed)
	var gaveUp *retry.Error
	switch {
	case success:
	case errors.As(r.err, &gaveUp):
		require.Error(t, gaveUp.Err, "%s: without its cause", r.id)
		if repeatable {
			assert.Equal(t, retry.StopAttempts, gaveUp.Stop, "%s: %v", r.id, r.err)
		}
		if gaveUp.Stop == retry.StopAttempts {
			exhausted(gaveUp.Attempts)
		}
	case r.err != nil:
		assert.False(t, repeatable, "%s: a Final error: %v (%+v)", r.id, r.err, r)
	case repeatable:
		exhausted(r.attempts)
	}
}

// The bar: through a network and a server that fail often, every request ends
// with a real success or with a true error, no POST without a key takes effect
// twice, and nothing is left behind.
//
//nolint:paralleltest // Goroutines are counted for the whole process.
func TestChaos(t *testing.T) {
	requests, workers := 10_000, 32
	if testing.Short() {
		requests = 1000
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	t.Logf("seed %d", seed)
	goroutines, begun := runtime.NumGoroutine(), time.Now()

	s := &chaosServer{
		t: t, dice: newChaosDice(seed, 1), ops: map[string]*chaosOp{}, all: map[string]string{},
	}
	server := serve(t, s.ServeHTTP)
	proxy := newChaosProxy(t, server.Listener.Addr().String(), newChaosDice(seed, 2))

	clients := chaosClients()
	results := make([]chaosResult, requests)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(100+worker))) //nolint:gosec // chance, no secret
			for {
				i := int(next.Add(1)) - 1
				if i >= requests {
					return
				}
				results[i] = chaosCall(t, r, clients[r.IntN(len(clients))], proxy.URL(), fmt.Sprint("op", i))
			}
		})
	}
	wg.Wait()
	t.Log("requests took", time.Since(begun))
	for _, c := range clients {
		c.CloseIdleConnections()
	}
	assert.Eventually(t, func() bool {
		return proxy.Open() == 0 && server.open.Load() == 0
	}, 10*time.Second, 5*time.Millisecond, "open connections")
	proxy.Close()
	server.Close()
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, // its own
		10*time.Second, 5*time.Millisecond, "goroutines left")

	count := map[string]int{}
	for _, r := range results {
		s.check(t, r)
		outcome := "ok"
		if r.err != nil || r.bodyErr != nil || r.status != http.StatusOK {
			outcome = "failed"
		}
		if r.body {
			r.method += " by Do"
		}
		count[r.method+" "+outcome]++
	}
	t.Log(count)
	for fault := range proxy.faults {
		assert.Greater(t, proxy.faults[fault].Load(), int64(requests/20), "fault %d was tried", fault)
	}
	assert.Greater(t, count["GET by Do ok"], 4*count["GET by Do failed"], "retries help")
}
