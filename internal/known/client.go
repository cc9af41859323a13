package known

import (
	"reflect"
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
	case 400, 402, 403, 409, 429:
		if reason = reasonOf(err, v); after <= 0 {
			after, hinted = reason.After, hinted || reason.After > 0
		}
	}
	f := Answer(status, header, hinted || after > 0, reason)
	f.After = after
	// 400 and 403 may be any refusal. The SDKs of AWS and Google say which one in an inner
	// error, which has the code.
	return f, Traits(0).with(Weak, f.Class == Final && (status == 400 || status == 403))
}

// headerOf returns the headers of the response that an error has, or nil.
func headerOf(err error, v reflect.Value) map[string][]string {
	if h := headers(field(v, "Header")); h != nil { // googleapi
		return h
	}
	for _, name := range [...]string{"Response", "RawResponse", "LastResponse", "HTTPResponse"} {
		resp := field(v, name)
		if !resp.IsValid() {
			continue
		}
		if h := headers(field(resp, "Header")); h != nil {
			return h
		}
		if h := headers(field(field(resp, "RawResponse"), "Header")); h != nil { // resty
			return h
		}
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
func headers(v reflect.Value) map[string][]string {
	if !v.IsValid() || v.Kind() != reflect.Map || !v.CanInterface() || !v.CanConvert(headerType) {
		return nil
	}
	h, _ := reflect.TypeAssert[map[string][]string](v.Convert(headerType))
	return h
}

// reasonOf returns what the code in an error says.
func reasonOf(err error, v reflect.Value) (f Fact) {
	if f = byName(err); f.Class != Unknown {
		return f
	}
	for _, name := range [...]string{"Code", "Type", "ErrorCode", "Reason", "DocumentationURL"} {
		f = f.or(Reason(text(indirect(field(v, name)))))
	}
	f = f.or(Reason(said(err)))
	const most = 10 // more would be no error but a document
	errs := field(v, "Errors")
	if errs.IsValid() && errs.Kind() == reflect.Slice { // googleapi
		for i := range min(errs.Len(), most) {
			f = f.or(Reason(text(field(errs.Index(i), "Reason"))))
		}
	}
	if details := field(v, "Details"); details.IsValid() && details.Kind() == reflect.Slice { // googleapi, genai
		for i := range min(details.Len(), most) {
			if item := details.Index(i); item.CanInterface() {
				f = f.or(ReasonIn(item.Interface()))
			}
		}
	}
	return f
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
	return g, retryAfter(reflect.ValueOf(err))
}

// retryAfter returns the wait in a field RetryAfter, a time.Duration or a pointer to one.
func retryAfter(v reflect.Value) time.Duration {
	if after := indirect(field(v, "RetryAfter")); after.IsValid() && after.Type() == durationType {
		return max(time.Duration(after.Int()), 0)
	}
	return 0
}

var durationType = reflect.TypeFor[time.Duration]()

// indirect returns what a pointer or an interface has, or v itself.
func indirect(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}
