package known

import (
	"bytes"
	"strings"
)

// word classifies a code that is in no row by the words at its end. Services spell the same
// few words in every way: TOO_MANY_REQUESTS, TooManyRequests, tooManyRequestsException. A text
// with spaces is prose, and not read.
func word(code string) Fact {
	var letters [longestCode]byte
	return ends(bare(code, &letters), endings[:])
}

// refused classifies a code without a status that another attempt cannot help. With a status,
// the status says so. A code with dots begins with its kind: AuthFailure.SignatureFailure.
func refused(code string) Fact {
	f := refusal(code)
	if kind, _, ok := strings.Cut(code, "."); ok && f.Class == Unknown {
		f = refusal(kind)
	}
	return f
}

// refusal reads a name by its end, or by its beginning too: ErrNoSuchContainer, InvalidURLError.
func refusal(code string) Fact {
	var letters [longestCode]byte
	name := bare(code, &letters)
	if f := ends(name, refusals[:]); f.Class != Unknown {
		return f
	}
	name = bytes.TrimPrefix(name, []byte("err"))
	switch {
	case bytes.HasPrefix(name, []byte("nosuch")):
		return Permanent("not_found")
	case bytes.HasPrefix(name, []byte("unsupported")):
		return Permanent("unsupported")
	case bytes.HasPrefix(name, []byte("invalid")) && endsIn(name, given[:]):
		return Permanent("invalid")
	}
	for _, large := range [...]string{"toolarge", "toobig", "sizeexceeded", "sizelimitexceeded"} {
		if endsWith(name, large) && endsIn(name[:len(name)-len(large)], sent[:]) {
			return Permanent("invalid")
		}
	}
	return Fact{}
}

// given is what a caller gives, behind the word "invalid". A response, a session or a state may be
// valid at another attempt.
var given = [...]string{
	"address", "apiversion", "argument", "arguments", "config", "configuration", "credentials", "input", "key", "name", "option",
	"options", "parameter", "parameters", "password", "path", "query", "syntax", "uri", "url", "username",
}

// sent is what a caller sends, before the words "too large". A queue, a rate or a delay may be
// smaller at another attempt.
var sent = [...]string{
	"batch", "body", "document", "entity", "file", "job", "key", "message", "meta", "metadata", "object", "payload",
	"record", "request", "transaction", "txn", "value",
}

type ending struct {
	word string
	fact Fact
}

// bare returns the letters of a code in lower case, without the words for an error at its end, or
// nothing for prose.
func bare(code string, letters *[longestCode]byte) []byte {
	n := 0
	for i := range len(code) {
		switch c := code[i]; {
		case n == len(letters), c == ' ':
			return nil
		case 'A' <= c && c <= 'Z':
			letters[n] = c - 'A' + 'a'
			n++
		case 'a' <= c && c <= 'z':
			letters[n] = c
			n++
		}
	}
	for _, kind := range [...]string{"exception", "error", "fault"} {
		if endsWith(letters[:n], kind) {
			n -= len(kind)
		}
	}
	return letters[:n]
}

func ends(name []byte, endings []ending) Fact {
	for i := range endings {
		if endsWith(name, endings[i].word) {
			return endings[i].fact
		}
	}
	return Fact{}
}

func endsIn(name []byte, words []string) bool {
	for _, word := range words {
		if endsWith(name, word) {
			return true
		}
	}
	return false
}

// endsWith asks for the last letter first, which is another one for most words.
func endsWith(name []byte, word string) bool {
	n := len(name) - len(word)
	return n >= 0 && name[len(name)-1] == word[len(word)-1] && string(name[n:]) == word
}

// longestCode is more letters than a code has.
const longestCode = 64

// endings has what the codes of many services end in, without the words for an error.
//
// https://google.aip.dev/194, https://docs.aws.amazon.com/general/latest/gr/api-retries.html,
// https://learn.microsoft.com/azure/architecture/best-practices/retry-service-specific
var endings = [...]ending{
	{"insufficientquota", usedUp},
	{"quotasexceeded", usedUp},
	{"quotaexhausted", usedUp},
	{"dailylimitexceeded", usedUp},
	{"dailyquotaexceeded", usedUp},
	{"monthlylimitexceeded", usedUp},
	{"monthlyquotaexceeded", usedUp},
	{"billinglimitexceeded", unpaid},
	{"insufficientcredits", unpaid},
	{"insufficientbalance", unpaid},
	{"accountoverdue", unpaid},

	{"ratelimit", limited},
	{"ratelimited", limited},
	{"ratelimiting", limited},
	{"ratelimitexceeded", limited},
	{"ratelimitreached", limited},
	{"toomanyrequests", limited},
	{"toomanyconcurrentrequests", limited},
	{"toomanywriteoperations", limited},
	{"requestlimitexceeded", limited},
	{"concurrencylimitexceeded", limited},
	{"concurrentlimitexceeded", limited},
	{"concurrentrunsexceeded", limited},
	{"activestatementsexceeded", limited},
	{"capacityexceeded", limited}, // Groq, with its status 498
	{"toomanyattemptstrylater", limited},
	{"slowdown", limited},
	{"slowdownread", limited},
	{"slowdownwrite", limited},
	{"throttled", limited},
	{"throttling", limited},
	{"throttle", limited},
	{"throttleviolation", limited},
	{"spikearrestviolation", limited},
	{"overqps", limited},
	{"qpslimitexceeded", limited},

	{"temporary", passing},
	{"transientstate", passing},
	{"temporarilyunavailable", passing},
	{"temporarilyunmodifiable", passing},
	{"serverbusy", passing},
	{"notready", passing},
	{"beingcreated", passing},
	{"beingdeleted", passing},
	{"unavailableentity", passing},
	{"toomanyupdates", limited},
	{"inprogress", passing},
	{"operationaborted", passing},
	{"concurrentmodification", passing},
	{"concurrentupdate", passing},
	{"conditionalrequestconflict", passing},
	{"transactionconflict", passing},
	{"writeconflict", passing},
	{"tryagain", passing},
	{"trylater", passing},
	{"tryagainlater", passing},
}

// refusals are the words of the statuses from 400 to 404 and 409, of OAuth, of GraphQL's servers,
// and of registries.
//
// https://www.rfc-editor.org/rfc/rfc6749#section-5.2, https://openid.net/specs/openid-connect-core-1_0.html#AuthError,
// https://www.apollographql.com/docs/apollo-server/data/errors,
// https://www.tencentcloud.com/document/api/213/30435
var refusals = [...]ending{
	{"notfound", Permanent("not_found")},
	{"doesnotexist", Permanent("not_found")},
	{"notexist", Permanent("not_found")},
	{"alreadyexists", Permanent("exists")},
	{"duplicatekey", Permanent("exists")},
	{"duplicateentry", Permanent("exists")},
	{"unauthorized", Permanent("permission")},
	{"unauthenticated", Permanent("permission")},
	{"authenticationfailed", Permanent("permission")},
	{"invalidauth", Permanent("permission")},
	{"notauthed", Permanent("permission")},
	{"accountinactive", Permanent("permission")},
	{"tokenexpired", Permanent("permission")},
	{"expiredtoken", Permanent("permission")},
	{"tokenrevoked", Permanent("permission")},
	{"invalidtoken", Permanent("permission")},
	{"missingscope", Permanent("permission")},
	{"accessdenied", Permanent("permission")},
	{"permissiondenied", Permanent("permission")},
	{"forbidden", Permanent("permission")},
	{"authfailure", Permanent("permission")},
	{"authorizationrequired", Permanent("permission")},
	{"authenticationrequired", Permanent("permission")},
	{"notallowed", Permanent("permission")},
	{"notpermitted", Permanent("permission")},
	{"notauthorized", Permanent("permission")},
	{"userdeactivated", Permanent("permission")},
	{"unauthorizedoperation", Permanent("permission")},
	{"invalidclient", Permanent("permission")},
	{"unauthorizedclient", Permanent("permission")},
	{"invalidgrant", Permanent("permission")},
	{"invalidscope", Permanent("permission")},
	{"insufficientscope", Permanent("permission")},
	{"loginrequired", Permanent("permission")},
	{"consentrequired", Permanent("permission")},
	{"interactionrequired", Permanent("permission")},
	{"badrequest", Permanent("invalid")},
	{"invalidrequest", Permanent("invalid")},
	{"invalidargument", Permanent("invalid")},
	{"invalidquery", Permanent("invalid")},
	{"invalidinput", Permanent("invalid")},
	{"invalidarguments", Permanent("invalid")},
	{"invalidparameter", Permanent("invalid")},
	{"invalidparametervalue", Permanent("invalid")},
	{"missingparameter", Permanent("invalid")},
	{"malformed", Permanent("invalid")},
	{"validation", Permanent("invalid")},
	{"validationfailed", Permanent("invalid")},
	{"parsefailed", Permanent("invalid")},
	{"userinput", Permanent("invalid")},
	{"nameinvalid", Permanent("invalid")},
	{"manifestinvalid", Permanent("invalid")},
	{"argumentnull", Permanent("invalid")}, // of .NET, and what speaks to it
	{"argumentnil", Permanent("invalid")},
	{"argumentnilorempty", Permanent("invalid")},
	{"usage", Permanent("invalid")}, // of the type UsageError
	{"notsupported", Permanent("unsupported")},
	{"notimplemented", Permanent("unsupported")},
	{"unimplemented", Permanent("unsupported")},
	{"rejectedidentifier", Permanent("permission")}, // of ACME
}
