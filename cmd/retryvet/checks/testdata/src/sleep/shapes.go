package sleep

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

type answer struct{ status int }

func (a *answer) IsError() bool { return a.status > 399 }

func is2xx(resp *http.Response) bool {
	switch resp.StatusCode / 100 {
	case 2:
		return true
	}
	return false
}

func helper(ctx context.Context, client *http.Client, req *http.Request) (*http.Response, error) {
	for i := 0; i < 3; i++ {
		resp, err := client.Do(req)
		if err == nil && is2xx(resp) {
			return resp, nil
		}
		time.Sleep(time.Second) // want `the wait before the next attempt ignores ctx`
	}
	return nil, errors.New("no answer")
}

func asked(ctx context.Context, send func() *answer) {
	for {
		a := send()
		if !a.IsError() {
			return
		}
		time.Sleep(time.Second) // want `attempt ignores ctx`
	}
}

func statusAlone(ctx context.Context, get func() int) {
	for {
		code := get()
		if code == http.StatusOK {
			return
		}
		time.Sleep(time.Second) // want `attempt ignores ctx`
	}
}

func inHeader(ctx context.Context, ready func() bool) {
	for !ready() {
		time.Sleep(time.Second) // want `the wait before the next look ignores ctx`
	}
}

func reconnect(ctx context.Context, dial func() (io.Closer, error), serve func(io.Closer)) {
	for ctx.Err() == nil {
		conn, err := dial()
		if err != nil {
			time.Sleep(time.Second) // want `attempt ignores ctx`
			continue
		}
		serve(conn)
	}
}

func accept(ctx context.Context, l net.Listener, handle func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			log.Print(err)
			time.Sleep(time.Second) // want `attempt ignores ctx`
			continue
		}
		go handle(conn)
	}
}

func ticker(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		_ = call(ctx)
		log.Print("done")
		<-t.C // want `look ignores ctx`
	}
}

func tickerRange(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	for range t.C { // want `look ignores ctx`
		_ = call(ctx)
	}
}

func tickRange(ctx context.Context) error {
	for range time.Tick(time.Minute) { // want `attempt ignores ctx`
		if err := call(ctx); err == nil {
			return nil
		}
	}
	return nil
}

type backoff struct{ next time.Duration }

func (b *backoff) wait() {
	b.next *= 2
	log.Printf("waits for %s", b.next)
	time.Sleep(b.next)
}

func sleepFor(_ context.Context, d time.Duration) { time.Sleep(d) }

func helpers(ctx context.Context, b *backoff) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		b.wait() // want `attempt ignores ctx`
	}
}

func deafHelper(ctx context.Context) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		sleepFor(ctx, time.Second) // want `attempt ignores ctx`
	}
}

type aClock interface{ Sleep(time.Duration) }

func ofClock(ctx context.Context, c aClock) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		c.Sleep(time.Second) // want `attempt ignores ctx`
	}
}

// What follows is in order.

func shortTicker(ctx context.Context, ready func() bool) {
	t := time.NewTicker(time.Millisecond)
	for range t.C {
		if ready() {
			return
		}
	}
}

func shortHelper(ctx context.Context) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		sleepFor(ctx, time.Millisecond)
	}
}

func (b *backoff) listen(stop chan struct{}) {
	select {
	case <-stop:
	case <-time.After(b.next):
	}
}

func listens(ctx context.Context, b *backoff, stop chan struct{}) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		b.listen(stop)
	}
}

// paced slows down work on items.
func paced(ctx context.Context, names []string, send func(string)) {
	for _, name := range names {
		send(name)
		time.Sleep(time.Second)
	}
	for i := 0; i < len(names); i++ {
		send(names[i])
		time.Sleep(time.Second)
	}
	for len(names) > 0 {
		send(names[0])
		names = names[1:]
		time.Sleep(time.Second)
	}
}

func fromChannel(ctx context.Context, in chan string, send func(string)) {
	for {
		send(<-in)
		time.Sleep(time.Second)
	}
}

type page struct{ next string }

func tokens(ctx context.Context, list func(string) (page, error)) error {
	token := ""
	for {
		p, err := list(token)
		if err != nil {
			return err
		}
		if p.next == "" {
			return nil
		}
		token = p.next
		time.Sleep(time.Second)
	}
}

func doneIsNil(ctx context.Context) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if done := ctx.Done(); done != nil {
			t := time.NewTimer(time.Second)
			select {
			case <-done:
				return err
			case <-t.C:
				continue
			}
		}
		time.Sleep(time.Second)
	}
}

// A goroutine has no context of its own, and does not use the one around it.
func inGoroutine(ctx context.Context, refresh func()) {
	go func() {
		for {
			refresh()
			time.Sleep(time.Second)
		}
	}()
}

// The context is that of the constructor, and the goroutine goes on after it.
func constructor(ctx context.Context, next func() (int, error), update func(int)) error {
	if _, err := next(); err != nil || ctx.Err() != nil {
		return err
	}
	go func() {
		for {
			n, err := next()
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			update(n)
		}
	}()
	return nil
}

// Nothing ends the context while the loop runs, and nothing in the loop uses it.
func forSomethingElse(start func(context.Context), get func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start(ctx)
	for {
		if err := get(); err != nil {
			panic(err)
		}
		time.Sleep(time.Second)
	}
}

func untilSoon(ctx context.Context, last time.Time, get func() error) {
	for {
		if err := get(); err == nil {
			return
		}
		time.Sleep(time.Until(last.Add(10 * time.Millisecond)))
	}
}

func broadcasts(ctx context.Context, n int, make func(int) string, send func(string) error) error {
	for i := 1; i <= n; i++ {
		text := make(i)
		err := send(text)
		if (text != "") != (err == nil) {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

const soon = 30 * time.Millisecond

// No wait in it is long.
func soonAgain(ctx context.Context) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(wait.Jitter(soon, 1.0))
		time.Sleep(rand.N(50 * time.Millisecond))
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
	}
}

func jittered(ctx context.Context) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(wait.Jitter(soon, 3.0)) // want `ignores ctx`
	}
}

func longDraw(ctx context.Context, d time.Duration) {
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(rand.N(time.Second)) // want `ignores ctx`
		time.Sleep(rand.N(d))           // want `ignores ctx`
	}
}

// The context of the caller is replaced by one that nothing ends in time.
func replaced(ctx context.Context, times int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := 0; i < times; i++ {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// The function itself gives up by cancel, and hands it to others after the loop.
func handedOut(keep func(context.Context, func())) error {
	ctx, cancel := context.WithCancel(context.Background())
	for retries := 10; ; retries-- {
		err := call(ctx)
		if err == nil {
			break
		}
		if retries == 0 {
			cancel()
			return err
		}
		time.Sleep(time.Second)
	}
	keep(ctx, cancel)
	return nil
}

func handedOutBefore(keep func(context.Context, func())) {
	ctx, cancel := context.WithCancel(context.Background())
	keep(ctx, cancel)
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(time.Second) // want `ignores ctx`
	}
}

func declared() {
	var (
		ctx = context.Background()
		n   int
	)
	for {
		if err := call(ctx); err == nil {
			n++
			return
		}
		time.Sleep(time.Second)
	}
}

func newRequest() (*http.Request, error) { return http.NewRequest("GET", "/", nil) }

func requestOfOurs(client *http.Client) error {
	req, err := newRequest()
	if err != nil {
		return err
	}
	for {
		if _, err := client.Do(req); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func canceled(stop chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(time.Second) // want `ignores ctx`
	}
}

func orBackground(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		if err := call(ctx); err == nil {
			return
		}
		time.Sleep(time.Second) // want `ignores ctx`
	}
}

type raceOptions struct{ SleepForRace, gracePeriod time.Duration }

// The wait provokes a race between two updates, and is none after a failure.
func provoked(ctx context.Context, o raceOptions, update func() error) {
	for range 3 {
		if o.SleepForRace > 0 {
			time.Sleep(o.SleepForRace * time.Second)
		}
		if err := update(); err == nil {
			return
		}
	}
}

func graceful(ctx context.Context, o raceOptions, update func() error) {
	for range 3 {
		if err := update(); err == nil {
			return
		}
		time.Sleep(o.gracePeriod) // want `ignores ctx`
	}
}

func logger(context.Context) *log.Logger { return log.Default() }

// The goroutine takes a logger out of the context of a constructor, and goes on after it.
func logsOnly(ctx context.Context, connect func() error) {
	go func() {
		for i := 0; i < 100; i++ {
			if err := connect(); err == nil {
				return
			}
			logger(ctx).Print("not connected")
			time.Sleep(10 * time.Second)
		}
	}()
}

func worksLater(ctx context.Context, connect func() error, serve func(context.Context)) {
	go func() {
		for {
			if err := connect(); err == nil {
				break
			}
			logger(ctx).Print("not connected")
			time.Sleep(10 * time.Second) // want `ignores ctx`
		}
		serve(ctx)
	}()
}

func asksLater(ctx context.Context, connect func() error) {
	go func() {
		for ctx.Err() == nil {
			if err := connect(); err == nil {
				break
			}
			time.Sleep(10 * time.Second) // want `ignores ctx`
		}
	}()
}

type reader struct {
	ctx     context.Context // never ends
	receive func(context.Context) error
}

func newReader() *reader {
	ctx := context.Background()
	return &reader{ctx: ctx}
}

func (r *reader) work() {
	for {
		if err := r.receive(r.ctx); err != nil {
			time.Sleep(time.Second)
			continue
		}
		log.Print("received")
	}
}

type stoppable struct {
	ctx     context.Context
	cancel  func()
	receive func(context.Context) error
}

func newStoppable() *stoppable {
	s := &stoppable{ctx: context.Background()}
	s.ctx, s.cancel = context.WithCancel(s.ctx)
	return s
}

func (s *stoppable) work() {
	for {
		if err := s.receive(s.ctx); err != nil {
			time.Sleep(time.Second) // want `ignores s.ctx`
			continue
		}
		log.Print("received")
	}
}

// Each iteration reads another line, and the waits are those of the recording.
func replay(ctx context.Context, lines *bufio.Reader, delay func([]byte) time.Duration, send func([]byte)) {
	for ctx.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if d := delay(line); d > 0 {
			time.Sleep(d)
		}
		send(line)
	}
}

// Each attempt has a context of its own in the same variable.
func renewed(call func(context.Context) error, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := call(ctx)
	for err != nil {
		time.Sleep(d)
		ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = call(ctx)
	}
	return err
}

// A value is added to the context, which ends with the one before.
func extended(ctx context.Context, call func(context.Context) error, d time.Duration) (int, error) {
	for {
		ctx = context.WithValue(ctx, key{}, d)
		err := call(ctx)
		if err == nil {
			return 0, nil
		}
		time.Sleep(d) // want `ignores ctx`
	}
}

type key struct{}

// The work begins when the context has ended already.
func drains(ctx context.Context, left func() int) {
	<-ctx.Done()
	for left() > 0 {
		time.Sleep(time.Second)
	}
}

func drainsInSelect(ctx context.Context, stop <-chan struct{}, remove func() error) error {
	select {
	case <-ctx.Done():
		for range 3 {
			if err := remove(); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		return ctx.Err()
	case <-stop:
		return nil
	}
}

// What is deferred runs also when the context has ended.
func cleansUp(ctx context.Context, work func(context.Context) error, remove func() error) (err error) {
	defer func() {
		for range 3 {
			if err := remove(); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	return work(ctx)
}

func afterTheEnd(ctx context.Context, work func(context.Context) error, remove func() error) error {
	err := work(ctx)
	if ctx.Err() != nil {
		for range 3 {
			if err := remove(); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
	}
	return err
}

func afterEither(ctx context.Context, stop <-chan struct{}, left func() int) {
	select {
	case <-ctx.Done():
	case <-stop:
	}
	for left() > 0 {
		time.Sleep(time.Second)
	}
}

// A select that returns at the end of the context says nothing of what follows.
func returnsAtTheEnd(ctx context.Context, begin <-chan struct{}, left func() int) {
	select {
	case <-ctx.Done():
		return
	case <-begin:
	}
	for left() > 0 {
		time.Sleep(time.Second) // want `ignores ctx`
	}
}

// A last grace is no wait for the next attempt.
func grace(ctx context.Context, send func() error, done chan<- int) {
	n := 0
	for {
		select {
		case <-ctx.Done():
			time.Sleep(time.Second)
			done <- n
			return
		default:
			if err := send(); err != nil {
				time.Sleep(time.Second) // want `ignores ctx`
				continue
			}
			n++
		}
	}
}

// Nothing is tried after the wait.
func settles(ctx context.Context, done func() (bool, error), d time.Duration) error {
	for ctx.Err() == nil {
		ok, err := done()
		if err != nil {
			return err
		}
		if ok {
			time.Sleep(d)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

func withID(ctx context.Context, id int) context.Context { return context.WithValue(ctx, key{}, id) }

func start(ctx context.Context, name string) (context.Context, io.Closer) { return ctx, nil }

func valued(call func(context.Context) error) (int, error) {
	ctx := withID(context.Background(), 7)
	for {
		if err := call(ctx); err == nil {
			return 0, nil
		}
		time.Sleep(time.Second)
	}
}

func traced(call func(context.Context) error) (int, error) {
	ctx, span := start(context.Background(), "call")
	defer span.Close()
	for {
		if err := call(ctx); err == nil {
			return 0, nil
		}
		time.Sleep(time.Second)
	}
}

func withDeadline(ctx context.Context, d time.Duration) context.Context {
	ctx, _ = context.WithTimeout(ctx, d)
	return ctx
}

func limited(call func(context.Context) error) (int, error) {
	ctx := withDeadline(context.Background(), time.Minute)
	for {
		if err := call(ctx); err == nil {
			return 0, nil
		}
		time.Sleep(time.Second) // want `ignores ctx`
	}
}

// What a timer has sent already is taken out of it.
func drained(ctx context.Context, done <-chan struct{}, call func() error, d time.Duration) error {
	for {
		if err := call(); err == nil {
			return nil
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			if !t.Stop() {
				<-t.C
			}
		}
	}
}

type node struct {
	ctx  context.Context
	next func() *node
}

func newNode(ctx context.Context) *node { return &node{ctx: ctx} }

// The context of the struct is another one each time.
func standsBy(n *node, lead func(context.Context) error) {
	for {
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		n.ctx = ctx
		err := lead(n.ctx)
		cancel()
		if err != nil {
			continue
		}
		return
	}
}

func replaces(n *node, run func(context.Context) error) {
	for {
		if err := run(n.ctx); err != nil {
			time.Sleep(time.Second)
			n = n.next()
			continue
		}
		return
	}
}

// A loop that a channel or a flag stops has a context for something else.
func stopped(ctx context.Context, stopCh <-chan struct{}, call func(context.Context) error) {
	for {
		select {
		case <-stopCh:
			return
		default:
			if err := call(ctx); err != nil {
				time.Sleep(time.Second)
				continue
			}
		}
	}
}

func flagged(ctx context.Context, isShutdown func() bool, call func(context.Context) error) {
	for {
		if isShutdown() {
			return
		}
		if err := call(ctx); err != nil {
			time.Sleep(time.Second)
			continue
		}
	}
}

func flaggedAndAsked(ctx context.Context, isShutdown func() bool, call func(context.Context) error) {
	for ctx.Err() == nil {
		if isShutdown() {
			return
		}
		if err := call(ctx); err != nil {
			time.Sleep(time.Second) // want `ignores ctx`
			continue
		}
	}
}

func byKindOfError(ctx context.Context, isClosed func(error) bool, call func(context.Context) error) {
	for {
		if err := call(ctx); err != nil {
			if isClosed(err) {
				return
			}
			time.Sleep(time.Second) // want `ignores ctx`
			continue
		}
	}
}

var frame = 20

// What is left of a frame is shorter than the frame.
func plays(ctx context.Context, play func()) {
	last := time.Now().UnixMilli()
	for ctx.Err() == nil {
		play()
		rest := time.Duration(int64(frame) - (time.Now().UnixMilli() - last))
		if rest > 0 {
			time.Sleep(rest * time.Millisecond)
		}
		last = time.Now().UnixMilli()
	}
}

// Nothing but an error ends this.
func serves(ctx context.Context, l net.Listener, handle func(context.Context, net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Second) // want `ignores ctx`
			continue
		}
		go handle(ctx, c)
	}
}

func servesUntilShutdown(ctx context.Context, l net.Listener, inShutdown func() bool, handle func(context.Context, net.Conn)) error {
	for {
		c, err := l.Accept()
		if err != nil {
			if inShutdown() && errors.Is(err, net.ErrClosed) {
				return err
			}
			time.Sleep(time.Second)
			continue
		}
		go handle(ctx, c)
	}
}

// The wait is a part of what is done with a message.
func slowEcho(ctx context.Context, read func() ([]byte, error), write func([]byte) error, d time.Duration) error {
	for ctx.Err() == nil {
		message, err := read()
		if err != nil {
			return err
		}
		time.Sleep(d)
		if err = write(message); err != nil {
			return err
		}
	}
	return nil
}

func stoppedByDone(ctx context.Context, done <-chan struct{}, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return err
		default:
		}
		time.Sleep(time.Second)
	}
}

// The request is another one each time, and has no context.
func remade(client *http.Client, url string, prepare func(*http.Request, *http.Request) *http.Request, d time.Duration) error {
	var last *http.Request
	for {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		last = prepare(req, last)
		resp, err := client.Do(last)
		if err == nil {
			return resp.Body.Close()
		}
		time.Sleep(d)
	}
}

// What is left of a division is less than the divisor.
func smallRest(ctx context.Context, call func() error) error {
	for {
		if err := call(); err == nil {
			return nil
		}
		time.Sleep(time.Duration(rand.Int()%90) * time.Millisecond)
	}
}

func anyDraw(ctx context.Context, call func() error) (int, error) {
	for {
		if err := call(); err == nil {
			return 0, nil
		}
		time.Sleep(time.Duration(rand.Int())) // want `ignores ctx`
	}
}

func brief(ctx context.Context, call func(context.Context) error) (int, error) {
	for {
		if err := call(ctx); err == nil {
			return 0, nil
		}
		time.Sleep(100 * time.Millisecond) // want `ignores ctx`
	}
}

// The context is asked ten times a second.
func briefAndAsked(ctx context.Context, call func() error) (int, error) {
	for ctx.Err() == nil {
		if err := call(); err == nil {
			return 0, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, ctx.Err()
}
