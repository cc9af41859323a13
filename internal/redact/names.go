package redact

import "strings"

// kind says what the values of a name look like.
type kind uint8

const (
	harmless kind = iota
	random        // made by a machine: with digits, or long
	chosen        // by a person: any word
	header        // a scheme and what belongs to it
	cookies       // names and values, up to the end of the line
)

// secretNames are the ends of the names of secrets, in lower case and without separators.
var secretNames = [...]struct {
	kind kind
	ends string
}{
	{chosen, "password passwd passphrase passcode pwd bindpw rootpw secret secretstring secretvalue secretbinary"},
	{random, "token tokenvalue apikey appkey applicationkey accesskey accesskeyid secretkey secretkeybase privatekey" +
		" accountkey sharedkey signingkey encryptionkey masterkey subscriptionkey sessionkey licensekey credential" +
		" credentials sessionid sessid clientassertion samlresponse codeverifier passwordhash jwt"},
	{header, "authorization signature"},
	{cookies, "cookie"},
}

// secretWords are names, or their last words, that only count as a whole: not compass, not config.
var secretWords = map[string]kind{"pass": chosen, "pw": chosen, "auth": random, "sig": random}

var kinds, longestName = func() (map[string]kind, int) {
	kinds, longest := map[string]kind{}, 0
	for _, row := range secretNames {
		for end := range strings.FieldsSeq(row.ends) {
			kinds[end], longest = row.kind, max(longest, len(end))
		}
	}
	return kinds, longest
}()

// kindOf tells a secret by the end of its name: password, DB_PASSWORD, x-api-key, dbPass, secret2.
func kindOf(name string) kind {
	name = strings.TrimRight(name, digits+".-_ ")
	letters := make([]byte, 0, 64) // the last ones, from behind
	word := -1                     // where the last word begins, in letters
	for i := len(name) - 1; i >= 0 && len(letters) < longestName; i-- {
		c := name[i]
		if word < 0 && len(letters) > 0 && (separator(c) || upper(name[i+1]) && !upper(c)) {
			word = len(letters)
		}
		if !separator(c) {
			letters = append(letters, c|0x20)
		}
	}
	for i, j := 0, len(letters)-1; i < j; i, j = i+1, j-1 {
		letters[i], letters[j] = letters[j], letters[i]
	}
	if word < 0 && len(letters) < longestName {
		word = len(letters) // the whole name
	}
	if word > 0 {
		if k := secretWords[string(letters[len(letters)-word:])]; k != harmless {
			return k
		}
	}
	for i := range letters {
		if k := kinds[string(letters[i:])]; k != harmless {
			return k
		}
	}
	return harmless
}

func separator(c byte) bool { return c == '_' || c == '-' || c == '.' || c == ' ' }

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }

// prose are words behind the names of secrets that are none.
var prose = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`eof timeout unauthorized unauthenticated forbidden denied refused canceled cancelled
		expired invalid incorrect wrong missing required empty unknown unavailable unsupported malformed revoked rejected
		mismatch disabled exhausted closed locked failed found none null nil undefined true false redacted hidden masked
		x509 asn1 oauth2 http2 base64 pkcs8 pkcs12 sha1 sha256 sha512 ed25519 argon2 argon2id pbkdf2 utf8`) {
		words[word] = true
	}
	return words
}()

// literals are values that say that there is no secret.
var literals = map[string]bool{"null": true, "nil": true, "None": true, "undefined": true, "true": true, "false": true}

// suspect reports whether a word that may be prose looks like a secret. rest is what
// follows it.
func suspect(word, rest string, k kind) bool {
	rest = strings.TrimLeft(rest, " \t")
	switch {
	case strings.IndexFunc(word, alphanumeric) < 0 && word != hidden,
		prose[strings.ToLower(word)],
		len(word) == len("404") && strings.Trim(word, digits) == "":
		return false
	case k == chosen && (rest == "" || strings.IndexByte("\r\n-", rest[0]) >= 0): // the last word of a line, or of a flag
		return true
	case path(word), strings.Contains(word, "://"):
		return false
	default:
		return strings.ContainsAny(word, digits) && len(word) > 3 || strings.ContainsAny(word, `@#$%^&*!+~"`) || len(word) >= 20
	}
}

// path reports whether a word is the name of a file. One key in 64 in Base64 begins with a
// slash too, but such keys are long, and have capitals and no dots.
func path(word string) bool {
	return strings.HasPrefix(word, "/") &&
		(len(word) < 20 || strings.ContainsAny(word, "._-~") || strings.ToLower(word) == word)
}

const digits = "0123456789"

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || upper(c) || '0' <= c && c <= '9' || c == '_'
}

// runByte reports whether c may be in a name or a key.
func runByte(c byte) bool { return wordByte(c) || c == '-' || c == '.' }

func alphanumeric(r rune) bool { return r > 0x7f || wordByte(byte(r)) && r != '_' }
