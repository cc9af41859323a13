package known

import (
	"cmp"
	"io"
	"reflect"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/hint"
)

// Errors of clients that have more of a response than its status: its headers, and the code
// with which the service says why. They are known by the shape of their type, because there
// are hundreds.

// client is an error of a client, and what it has of a response.
type client struct {
	err   error
	v     reflect.Value
	shape *shape
	parts
}

func clientOf(err error, s *shape) client {
	c := client{err: err, v: reflect.ValueOf(err), shape: s}
	c.fields(c.add)
	c.ofResponse(2)
	if s.limited.Class == RateLimited && c.after <= 0 { // of go-shopify, and a bot of Telegram: seconds
		c.after = time.Duration(min(max(number(field(c.v, "RetryAfter")), 0), mostSeconds)) * time.Second
	}
	return c
}

// mostSeconds is more than a wait that is written in seconds: a week.
const mostSeconds = 7 * 24 * 60 * 60

// fields calls do with the fields of the error that have a role.
func (c *client) fields(do func(role, reflect.Value)) {
	if v := reflect.Indirect(c.v); v.Kind() == reflect.Struct {
		c.shape.walk(v, 0, do)
	}
}

// answered classifies the error of a client that has this status of a response. after is the
// wait that the error itself asks for, and hinted says that an outer error asks for one.
func (c *client) answered(status int, after time.Duration, hinted bool) (Fact, Traits) {
	header := c.headers()
	if after <= 0 && header != nil && (Status(status, true).Class != Final || EnvoyLimited(header)) {
		var ok bool
		after, ok = hint.Parse(status, header, time.Time{})
		hinted = hinted || ok
	}
	var reason Fact
	if MoreInBody(status) {
		var delay time.Duration
		if reason, delay = c.reason(); after <= 0 {
			after = max(delay, reason.After)
		}
	}
	f := Answer(status, header, hinted || after > 0, false, reason)
	f.After = after
	// 400, 403 and 409 may be any refusal, and 503 one for load. The SDKs of AWS and Google say
	// which one in an inner error, which has the code.
	vague := f.Class == Final && (status == 400 || status == 403 || status == 409) || f.Class == Retryable && status == 503
	return f, Traits(0).with(Weak, vague)
}

// parts are the fields of an error, or of what it embeds, that many clients have.
type parts struct {
	status   int // 0 if there is none
	after    time.Duration
	texts    [mostCodes]string // the codes
	number   int64             // a Code that is an integer
	hope     bool
	sqlState string
	cause    reflect.Value // an error that Unwrap does not show
	header   reflect.Value
	response reflect.Value // the fields of a response
}

// mostCodes is how many codes of an error without a status are asked: its name, and its type.
const mostCodes = 2

// ofResponse reads what the error itself does not have from its response. A response of resty
// has one of net/http in it.
func (p *parts) ofResponse(depth int) {
	if !p.response.IsValid() || depth == 0 {
		return
	}
	var inner parts
	walk(p.response, 0, inner.add)
	inner.ofResponse(depth - 1)
	p.status = cmp.Or(p.status, inner.status)
	if !p.header.IsValid() {
		p.header = inner.header
	}
}

func (p *parts) add(r role, v reflect.Value) {
	switch r {
	case roleStatus:
		if p.status == 0 {
			p.status = statusIn(indirect(v))
		}
	case roleHeader:
		if !p.header.IsValid() {
			p.header = headerMap(v)
		}
	case roleResponse:
		if v = indirect(v); !p.response.IsValid() && v.IsValid() && v.Kind() == reflect.Struct {
			p.response = v
		}
	case roleWait:
		p.after = max(p.after, wait(v))
	case roleSeconds:
		seconds, _ := hint.Decimal(digits(v), time.Second)
		p.after = max(p.after, seconds)
	case roleSQLState:
		p.sqlState = text(v)
	case roleCause:
		if v.Kind() == reflect.String { // of slack-go: the code
			p.add(roleReason, v)
		} else if !p.cause.IsValid() {
			p.cause = v
		}
	case roleReason:
		v = indirect(v)
		p.addText(cmp.Or(text(v), named(v)))
		if p.number == 0 {
			p.number = number(v)
		}
	case roleExtensions:
		if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
			p.add(roleReason, indirect(v.MapIndex(reflect.ValueOf("code").Convert(v.Type().Key()))))
		}
	case roleHope:
		p.hope = p.hope || v.Kind() == reflect.Bool && v.Bool()
	default:
	}
}

func (p *parts) addText(code string) {
	for i := range p.texts {
		if p.texts[i] == "" {
			p.texts[i] = code
			break
		}
	}
}

// named returns the name of a code that is a number, if its type gives one, or "".
func named(v reflect.Value) string {
	if !v.IsValid() || !v.CanInt() && !v.CanUint() || !v.CanInterface() {
		return ""
	}
	if code, ok := reflect.TypeAssert[interface{ String() string }](v); ok {
		return code.String()
	}
	return ""
}

// statusIn reads a status that is a number, or begins a status line such as "404 Not Found".
func statusIn(v reflect.Value) int {
	line := text(v)
	const digits = len("404")
	if len(line) < digits || len(line) > digits && line[digits] != ' ' {
		return valid(number(v))
	}
	status, err := strconv.ParseUint(line[:digits], 10, 16)
	if err != nil {
		return 0
	}
	return valid(int64(status))
}

// generated classifies the errors of generated clients, whose text is the status line.
//
// https://github.com/OpenAPITools/openapi-generator/blob/master/modules/openapi-generator/src/main/resources/go/api.mustache
func generated(v reflect.Value, _ string) (Fact, int, time.Duration) {
	return Fact{}, cmp.Or(statusIn(field(v, "statusCode")), statusIn(field(v, "error")), statusIn(field(v, "ErrorMessage"))), 0
}

// headerMap returns a map of headers that has something, or a map with the one header that
// counts of kiota's, which has a method for each.
func headerMap(v reflect.Value) (m reflect.Value) {
	switch {
	case v.Kind() == reflect.Map && v.Len() > 0:
		return v
	case v.Kind() != reflect.Pointer || v.IsNil() || !v.CanInterface():
		return m
	}
	const name = "Retry-After"
	if h, ok := reflect.TypeAssert[interface{ Get(name string) []string }](v); ok {
		if values := h.Get(name); len(values) > 0 {
			return reflect.ValueOf(map[string][]string{name: values})
		}
	}
	return m
}

// wait reads a RetryAfter: a duration, or the text of the header. A number has an unknown unit.
func wait(v reflect.Value) time.Duration {
	v = indirect(v)
	if v.IsValid() && v.Type() == durationType {
		return max(time.Duration(v.Int()), 0)
	}
	seconds, _ := hint.Decimal(text(v), time.Second)
	return seconds
}

// digits returns a number, or the text of one.
func digits(v reflect.Value) string {
	v = indirect(v)
	if s := text(v); s != "" {
		return s
	}
	return strconv.FormatInt(number(v), 10)
}

var durationType = reflect.TypeFor[time.Duration]()

// headers returns the headers of the response that the error has, or nil.
func (c *client) headers() map[string][]string {
	if h := headers(c.header); h != nil || c.shape.silent {
		return h
	}
	if h, ok := result(c.v.MethodByName("Header")); ok {
		return headers(h)
	}
	if h, ok := result(c.v.MethodByName("ResponseHeader")); ok { // openfga
		return headers(h)
	}
	if resp, ok := result(c.v.MethodByName("Response")); ok {
		return headers(field(resp, "Header"))
	}
	return nil
}

var headerType = reflect.TypeFor[map[string][]string]()

// headers returns a value that has the form of an http.Header, or nil.
func headers(v reflect.Value) (h map[string][]string) {
	defer silence()
	if !v.IsValid() || v.Kind() != reflect.Map || v.Len() == 0 || !v.CanInterface() {
		return nil
	}
	// What is addressable would be copied.
	h, _ = reflect.TypeAssert[map[string][]string](reflect.ValueOf(v.Interface()).Convert(headerType))
	return h
}

// reason returns what the code in the error says, and the wait in its details.
func (c *client) reason() (Fact, time.Duration) {
	if c.shape.limited.Class != Unknown {
		return c.shape.limited, 0
	}
	var p reasonParts
	c.fields(p.add)
	return p.fact.or(c.said()), p.after
}

// codes returns what the codes of an error without a status say.
func (c *client) codes() Fact {
	f := c.said().or(SQLState(c.sqlState))
	for _, code := range c.texts {
		f = f.or(Reason(code))
	}
	for i := 0; i < len(c.texts) && c.texts[i] != "" && f.Class == Unknown; i++ {
		f = refused(c.texts[i])
	}
	return f
}

// said returns what the code says for which the error has a method.
func (c *client) said() Fact {
	if c.shape.silent {
		return Fact{}
	}
	return Reason(said(c.err))
}

// mostItems is how many items of a list in an error are read: more would be no error but a
// document.
const mostItems = 10

type reasonParts struct {
	fact  Fact
	after time.Duration
}

func (p *reasonParts) add(r role, v reflect.Value) {
	switch r {
	case roleReason:
		p.fact = p.fact.or(Reason(text(indirect(v))))
	case roleList:
		p.items(v)
	default:
	}
}

// items reads a list in an error: of structs with a Reason or Code, or of parts of a JSON document.
func (p *reasonParts) items(list reflect.Value) {
	if list.Kind() != reflect.Slice {
		return
	}
	for i := range min(list.Len(), mostItems) {
		item := list.Index(i)
		if indirect(item).Kind() == reflect.Struct { // of Google, of registries
			p.fact = p.fact.or(Reason(text(field(item, "Reason")))).or(Reason(text(field(item, "Code"))))
		} else if item.CanInterface() {
			p.fact = p.fact.or(ReasonIn(item.Interface()))
			after, _ := hint.RetryInfo(item.Interface())
			p.after = max(p.after, after)
		}
	}
}

// or returns f with what g says. That something is used up counts before a rate limit.
func (f Fact) or(g Fact) Fact {
	switch {
	case g.Class == Unknown:
		return f
	case f.Class == Unknown:
		return g
	default:
		return f.Merge(g, true)
	}
}

// byName knows the errors whose types say what they are: of go-github, slack-go, discordgo,
// go-shopify, cloudflare-go, scaleway-sdk-go and others. The words are those of codes.
func byName(name string) Fact {
	switch name {
	case "AbuseRateLimitError": // go-github: the secondary limit
		f := limited
		f.After = gitHubWait
		return f
	case "AcceptedError": // go-github: the answer is not ready yet
		return Transient("not_ready")
	case "TransientStateError": // scaleway-sdk-go
		return Transient("temporary")
	}
	if f := word(name); f.Class != Retryable { // what a method says of that counts more
		return f
	}
	return Fact{}
}

// hidden returns the error in a field of the error, if Unwrap does not return it, or nil.
func (c *client) hidden() error {
	if wraps(c.err) {
		return nil
	}
	field := c.cause
	if c.v.Kind() == reflect.Slice { // of kafka-go
		for i := range min(c.v.Len(), mostItems) {
			if field = c.v.Index(i); field.Kind() == reflect.Interface && !field.IsNil() {
				break
			}
		}
	}
	if field.IsValid() && field.CanInterface() && field.Kind() == reflect.Interface && !field.IsNil() {
		cause, ok := reflect.TypeAssert[error](field)
		if ok && !Mute(cause) && reflect.TypeOf(cause) != c.v.Type() {
			return cause
		}
	}
	return nil
}

// ofClient is speaking for an error whose methods give no class, but perhaps a status and a
// wait.
func ofClient(err error, s *shape, status int, after time.Duration, hinted bool) (f Fact, traits Traits) {
	c := clientOf(err, s)
	if status == 0 {
		f, status, after = c.says(after)
		for hidden := 0; f == (Fact{}) && status == 0 && hidden < mostHidden; hidden++ {
			cause := c.hidden()
			if cause == nil {
				break
			}
			c = clientOf(cause, shapeOf(reflect.TypeOf(cause)))
			if f = typed(cause); f == (Fact{}) {
				f, status, after = c.says(after)
			}
		}
	}
	switch {
	case f != (Fact{}):
	case status >= 400:
		return c.answered(status, after, hinted)
	case status != 0:
		f = Status(status, hinted || after > 0)
	case c.hope:
		f, traits = Transient("temporary"), Weak
	case !s.silent:
		f, traits = hopes(err)
	}
	if f == (Fact{}) && traits == 0 && after <= 0 && wrapsNothing(err) { // whatever it wraps says more
		f = s.refused
	}
	return f.waiting(after), traits
}

// wraps reports whether an error may wrap others.
func wraps(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	default:
		return false
	}
}

// wrapsNothing reports whether an error wraps no others, or only one that has a text that is not
// known.
func wrapsNothing(err error) bool {
	wrapper, ok := err.(interface{ Unwrap() error })
	if !ok {
		return !wraps(err)
	}
	cause, ok := errtree.Try(wrapper.Unwrap)
	return ok && (cause == nil || Mute(cause) && cause != io.EOF && sentinel(cause) == (Fact{}) && ofText(cause) == (Fact{}))
}

// hopes reads methods whose yes is a weak opinion and whose no is none:
//
//	SafeToRetry()      yes: nothing was sent; no: something may have been sent, which says nothing
//	                   about a transaction that was rolled back since (pgx/v5/pgconn, SafeToRetry)
//	Timeout()          yes: a timeout (net.Error)
//	Temporary()        yes: most of these are timeouts, and a few are not (net.Error, deprecated)
//	ConnectionError()  yes: the HTTP client failed (smithy-go/transport/http, RequestSendError). A
//	                   reset after the request was written is one of these failures, so nothing is
//	                   proved; a bad certificate is another, so what is known about the cause counts
func hopes(err error) (Fact, Traits) {
	defer silence()
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && e.SafeToRetry() {
		return Unapplied("unsent"), Weak | Unsent
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return Transient("timeout"), Weak
	}
	if e, ok := err.(interface{ Temporary() bool }); ok && e.Temporary() {
		return Transient("temporary"), Weak
	}
	if e, ok := err.(interface{ ConnectionError() bool }); ok && e.ConnectionError() {
		return Fact{}, Sending
	}
	return Fact{}, 0
}

// statusOf reads the HTTP status of an error, or 0.
func statusOf(err error) (status int) {
	defer silence()
	switch e := err.(type) {
	case interface{ HTTPStatusCode() int }: // smithy
		status = e.HTTPStatusCode()
	case interface{ HTTPCode() int }: // gax
		status = e.HTTPCode()
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	case interface{ HttpStatus() int }: // alibaba-cloud-sdk-go
		status = e.HttpStatus()
	case interface{ GetHTTPStatusCode() int }: // oci-go-sdk
		status = e.GetHTTPStatusCode()
	case interface{ GetStatusCode() int }: // kiota
		status = e.GetStatusCode()
	case interface{ HTTPStatus() int }:
		status = e.HTTPStatus()
	case interface{ Status() int }: // go-auth0, go-zendesk
		status = e.Status()
	}
	if status < lowestStatus || status > highestStatus {
		return 0
	}
	return status
}
