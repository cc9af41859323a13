package known

import (
	"reflect"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/hint"
)

// Errors of clients that have more of a response than its status: its headers, and the code
// with which the service says why. They are known by the shape of their type, because there
// are hundreds.

// answered classifies the error of a client that has this status of a response. after is the
// wait that the error itself asks for, and hinted says that an outer error asks for one.
func answered(err error, status int, after time.Duration, hinted bool) (Fact, Traits) {
	v := reflect.Indirect(reflect.ValueOf(err))
	header := headerOf(err, v)
	if after <= 0 && header != nil && (Status(status, true).Class != Final || EnvoyLimited(header)) {
		var ok bool
		after, ok = hint.Parse(status, header, time.Time{})
		hinted = hinted || ok
	}
	var reason Fact
	switch status {
	case 400, 402, 403, 409, 429, 503:
		var delay time.Duration
		if reason, delay = reasonOf(err, v); after <= 0 {
			after = max(delay, reason.After)
		}
	}
	f := Answer(status, header, hinted || after > 0, reason)
	f.After = after
	// 400 and 403 may be any refusal. The SDKs of AWS and Google say which one in an inner
	// error, which has the code.
	return f, Traits(0).with(Weak, f.Class == Final && (status == 400 || status == 403))
}

// parts are the fields of an error, or of what it embeds, that many clients have.
type parts struct {
	status   int // 0 if there is none
	after    time.Duration
	header   reflect.Value
	response reflect.Value // the fields of a response
}

// partsOf reads the fields in one pass, because every error of an unknown type is asked.
func partsOf(v reflect.Value) (p parts) {
	defer silence()
	p.scan(v, 0)
	return p
}

// embedded is how deep embedded structs are searched.
const embedded = 3

func (p *parts) scan(v reflect.Value, depth int) {
	v = indirect(v)
	if v.Kind() != reflect.Struct {
		return
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		switch f.Name {
		case "StatusCode", "HTTPStatusCode", "Status": // the last is of twilio-go
			if p.status == 0 {
				p.status = valid(number(v.Field(i)))
			}
		case "Header":
			if !p.header.IsValid() {
				p.header = v.Field(i)
			}
		case "Response", "RawResponse", "LastResponse", "HTTPResponse":
			if r := indirect(v.Field(i)); !p.response.IsValid() && r.IsValid() && r.Kind() == reflect.Struct {
				p.response = r
			}
		case "RetryAfter":
			if after := indirect(v.Field(i)); after.IsValid() && after.Type() == durationType {
				p.after = max(time.Duration(after.Int()), 0)
			}
		}
		if f.Anonymous && depth < embedded {
			p.scan(v.Field(i), depth+1)
		}
	}
}

var durationType = reflect.TypeFor[time.Duration]()

// statusCode returns the status, of the response if the error itself has none.
func (p *parts) statusCode() int {
	if p.status != 0 || !p.response.IsValid() {
		return p.status
	}
	if status := valid(number(field(p.response, "StatusCode"))); status != 0 {
		return status
	}
	return valid(number(field(field(p.response, "RawResponse"), "StatusCode"))) // resty
}

// headerOf returns the headers of the response that an error has, or nil.
func headerOf(err error, v reflect.Value) map[string][]string {
	p := partsOf(v)
	if h := headers(p.header); h != nil { // googleapi
		return h
	}
	if p.response.IsValid() {
		if h := headers(field(p.response, "Header")); h != nil {
			return h
		}
		return headers(field(field(p.response, "RawResponse"), "Header")) // resty
	}
	if reflect.TypeOf(err).NumMethod() < 2 { // only Error
		return nil
	}
	if h, ok := result(reflect.ValueOf(err).MethodByName("Header")); ok {
		return headers(h)
	}
	if resp, ok := result(reflect.ValueOf(err).MethodByName("Response")); ok {
		return headers(field(resp, "Header"))
	}
	return nil
}

var headerType = reflect.TypeFor[map[string][]string]()

// headers returns a value that has the form of an http.Header, or nil.
func headers(v reflect.Value) (h map[string][]string) {
	defer silence()
	if !v.IsValid() || v.Kind() != reflect.Map || v.Len() == 0 || !v.CanInterface() || !v.CanConvert(headerType) {
		return nil
	}
	h, _ = reflect.TypeAssert[map[string][]string](v.Convert(headerType))
	return h
}

// reasonOf returns what the code in an error says, and the wait in its details.
func reasonOf(err error, v reflect.Value) (Fact, time.Duration) {
	if f := byName(err); f.Class != Unknown {
		return f, 0
	}
	var r reasonParts
	r.scan(v, 0)
	return r.fact.or(Reason(said(err))), r.after
}

type reasonParts struct {
	fact  Fact
	after time.Duration
}

// scan reads the fields with codes in one pass, as partsOf does.
func (r *reasonParts) scan(v reflect.Value, depth int) {
	defer silence()
	v = indirect(v)
	if v.Kind() != reflect.Struct {
		return
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		switch f.Name {
		case "Code", "Type", "ErrorCode", "Reason", "DocumentationURL":
			r.fact = r.fact.or(Reason(text(indirect(v.Field(i)))))
		case "Errors", "Details": // googleapi, genai
			r.items(v.Field(i))
		}
		if f.Anonymous && depth < embedded {
			r.scan(v.Field(i), depth+1)
		}
	}
}

// items reads a list in an error: of structs with a Reason, or of parts of a JSON document.
func (r *reasonParts) items(list reflect.Value) {
	const most = 10 // more would be no error but a document
	if list.Kind() != reflect.Slice {
		return
	}
	for i := range min(list.Len(), most) {
		item := list.Index(i)
		if indirect(item).Kind() == reflect.Struct {
			r.fact = r.fact.or(Reason(text(field(item, "Reason"))))
		} else if item.CanInterface() {
			r.fact = r.fact.or(ReasonIn(item.Interface()))
			r.after = max(r.after, delayIn(item.Interface()))
		}
	}
}

// delayIn returns the delay of a google.rpc.RetryInfo in JSON, or 0.
func delayIn(detail any) time.Duration {
	info, _ := detail.(map[string]any)
	if info["@type"] != "type.googleapis.com/google.rpc.RetryInfo" {
		return 0
	}
	delay, _ := info["retryDelay"].(string)
	number, _ := strings.CutSuffix(delay, "s")
	d, _ := hint.Decimal(number, time.Second)
	return d
}

// said returns the code that an error has a method for, or "".
func said(err error) string {
	defer silence()
	switch e := err.(type) {
	case interface{ Reason() string }: // gax
		return e.Reason()
	case interface{ ErrorCode() string }:
		return e.ErrorCode()
	default:
		return ""
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

// byName knows the errors about rate limits whose types say so: of go-github, slack-go,
// discordgo, go-shopify, cloudflare-go and others.
func byName(err error) Fact {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Name() {
	case "AbuseRateLimitError": // go-github: the secondary limit
		f := limited
		f.After = gitHubWait
		return f
	case "RateLimitError", "RateLimitedError", "RatelimitError", "RateLimitExceededError":
		return limited
	default:
		return Fact{}
	}
}

// named returns the fact about an error that says it is retryable, and the wait in its field,
// if its type says that it is about a rate limit.
func named(f Fact, err error) (Fact, time.Duration) {
	g := byName(err)
	if g.Class == Unknown {
		return f, 0
	}
	g.Category = "rate_limited"
	p := partsOf(reflect.ValueOf(err))
	return g, p.after
}

// indirect returns what a pointer or an interface has, or v itself.
func indirect(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}
