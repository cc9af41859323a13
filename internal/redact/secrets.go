package redact

import "strings"

// secrets hides what looks like a password, a token or a key:
//
//	password=***, "api_key": "***", Authorization: Bearer ***
//
// It goes over the text once. Behind "=" or ":" the value of a secret name is hidden,
// whatever it is. Behind ": " there is prose too, as in "get token: context deadline
// exceeded"; there, a value is hidden if it looks like a secret.
func secrets(text string) string {
	var out strings.Builder
	copied := 0
	for i := 0; i < len(text); i++ {
		from, to := i, i
		switch c := text[i]; {
		case c == '=' || c == ':' || c == ' ':
			from, to = assigned(text, i)
		case c == '-' && strings.HasPrefix(text[i:], "-----BEGIN "):
			to += privateKey(text[i:])
		case runByte(c) && (i == 0 || !runByte(text[i-1])):
			from, to = standing(text, i)
		}
		if from < to {
			out.WriteString(text[copied:from])
			out.WriteString(hidden)
			copied, i = to, to-1
		}
	}
	return out.String() + text[copied:]
}

// kind says what the values of a name look like.
type kind uint8

const (
	harmless kind = iota
	random        // made by a machine: with digits, or long
	chosen        // by a person: any word
	header        // a scheme and what belongs to it
	cookies       // names and values, up to the end of the line
)

var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// kindOf tells a secret by the end of its name: password, DB_PASSWORD, x-api-key.
func kindOf(name string) kind {
	name = strings.ToLower(name)
	letters := separators.Replace(name)
	for _, secret := range [...]struct {
		name string
		kind kind
	}{
		{"password", chosen},
		{"passwd", chosen},
		{"passphrase", chosen},
		{"pwd", chosen},
		{"secret", chosen},
		{"token", random},
		{"apikey", random},
		{"accesskey", random},
		{"secretkey", random},
		{"privatekey", random},
		{"accountkey", random},
		{"signingkey", random},
		{"encryptionkey", random},
		{"masterkey", random},
		{"accesskeyid", random},
		{"credential", random},
		{"credentials", random},
		{"sessionid", random},
		{"signature", random},
		{"authorization", header},
		{"cookie", cookies},
	} {
		if strings.HasSuffix(letters, secret.name) {
			return secret.kind
		}
	}
	if name == "pass" || strings.HasSuffix(name, "_pass") {
		return chosen
	}
	return harmless
}

// assigned returns where the secret is that belongs to the name before a separator, if
// there is one. A space separates the name of a flag from its value: --password.
func assigned(text string, at int) (from, to int) {
	name, spaced := nameBefore(text[:at])
	if name == "" || text[at] == ' ' && name[0] != '-' {
		return at, at
	}
	k := kindOf(name)
	if k == harmless {
		return at, at
	}
	from = at + 1
	if strings.HasPrefix(text[from:], ">") {
		from++ // of =>
	}
	for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
		from++
		spaced = true
	}
	value := text[from:]
	if open, size := quoted(value); open > 0 {
		from += open
		if spaced && strings.IndexFunc(text[from:from+size], alphanumeric) < 0 {
			return at, at // of a parser: unexpected token: "}"
		}
		return from, from + size
	}
	if strings.HasSuffix(strings.ToLower(name), "pwd") && strings.HasPrefix(value, "/") {
		return at, at // the working directory
	}
	word := wordSize(value)
	switch {
	case k == header:
		skipped, size := credentials(value, spaced)
		return from + skipped, from + skipped + size
	case k == cookies && (!spaced || strings.Contains(value[:word], "=")):
		return from, from + len(lineOf(value))
	case (spaced || text[at] == ' ') && !suspect(value[:word], value[word:], k):
		return at, at
	}
	return from, from + word
}

// nameBefore returns the name at the end of a text, which may be quoted, and whether
// spaces follow it. Before "key", the name has one word more, as in "api key".
func nameBefore(text string) (name string, spaced bool) {
	const longest = 64
	text = text[max(len(text)-longest, 0):]
	trimmed := strings.TrimRight(text, " \t")
	spaced = len(trimmed) < len(text)
	trimmed = strings.TrimRight(trimmed, quotes+`\`)
	start := len(trimmed)
	back := func() {
		for start > 0 && runByte(trimmed[start-1]) {
			start--
		}
	}
	back()
	if strings.EqualFold(trimmed[start:], "key") && start > 0 && trimmed[start-1] == ' ' {
		start--
		back()
	}
	return trimmed[start:], spaced
}

const quotes = "\"'`"

// quoted returns the size of the quote with which a value begins, and the size of what
// stands between that and its match. In a map of headers, brackets are quotes.
func quoted(value string) (open, size int) {
	const escapes, brackets = 8, 4096 // at most, so that a text with many quotes takes linear time
	for open < min(len(value), escapes) && value[open] == '\\' {
		open++
	}
	if open == len(value) {
		return 0, 0
	}
	switch c := value[open]; c {
	case '"':
		size = closingQuote(value[open+1:], open)
	case '\'', '`':
		size = strings.IndexByte(value[open+1:], c)
	case '[':
		size = strings.IndexByte(value[open+1:min(len(value), open+brackets)], ']')
		if size < 0 {
			return 0, 0
		}
	default:
		return 0, 0
	}
	if open++; size < 0 { // to the end of the line, rather too much
		size = len(lineOf(value[open:]))
	}
	return open, size
}

// credentials returns how much of the value of an Authorization header is shown, and how
// much after that is the secret.
func credentials(value string, spaced bool) (shown, size int) {
	word := wordSize(value)
	shown = len(value) - len(strings.TrimLeft(value[word:], " ")) // behind the scheme
	switch strings.ToLower(value[:word]) {
	case "bearer", "basic", "token", "negotiate", "ntlm", "apikey", "key":
		return shown, wordSize(value[shown:])
	case "digest", "oauth", "hawk", "aws4-hmac-sha256": // have attributes
		return shown, len(lineOf(value[shown:]))
	}
	if spaced && !suspect(value[:word], value[word:], random) {
		return 0, 0
	}
	return 0, word
}

// suspect reports whether a word that may be prose looks like a secret. rest is what
// follows it.
func suspect(word, rest string, k kind) bool {
	switch {
	case strings.IndexFunc(word, alphanumeric) < 0 && word != hidden,
		strings.HasPrefix(word, "/"), strings.Contains(word, "://"), // a path, a URL
		strings.Contains(known, " "+strings.ToLower(word)+" "),
		len(word) == len("404") && strings.Trim(word, digits) == "":
		return false
	case strings.ContainsAny(word, digits) && len(word) > 3, strings.ContainsAny(word, "@#$%^&*!+~"), len(word) >= 20:
		return true
	default:
		rest = strings.TrimLeft(rest, " \t") // it is the last word of its line, and so no prose
		return k == chosen && (rest == "" || rest[0] == '\r' || rest[0] == '\n')
	}
}

// known are words in texts about secrets that are none.
const known = " eof timeout unauthorized unauthenticated forbidden denied refused canceled cancelled expired invalid" +
	" incorrect wrong missing required empty unknown unavailable unsupported malformed revoked rejected mismatch" +
	" disabled exhausted closed locked failed none null nil true false redacted hidden masked" +
	" x509 asn1 oauth2 http2 base64 pkcs8 pkcs12 sha1 sha256 sha512 ed25519 argon2 argon2id pbkdf2 utf8 "

const digits = "0123456789"

// standing returns where the secret is in what begins at a word, if it is one that says
// so itself: a JSON web token, what follows Bearer, a key with a known prefix.
func standing(text string, at int) (from, to int) {
	word := text[at:]
	switch {
	case strings.HasPrefix(word, "eyJ"):
		if size := runSize(word); size > 16 && strings.Contains(word[:size], ".") {
			return at, at + size
		}
	case word[0]|0x20 == 'b':
		scheme, value, _ := strings.Cut(word[:min(len(word), len("Bearer ")+1)], " ")
		if value != "" && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
			from = at + len(scheme) + 1
			size := wordSize(text[from:])
			if size >= 8 && mixed(text[from:from+size]) {
				return from, from + size
			}
		}
	default:
		for _, prefix := range prefixes {
			if !strings.HasPrefix(word, prefix) {
				continue
			}
			if size := runSize(word); size >= 20 && mixed(word[len(prefix):size]) {
				return at, at + size
			}
		}
	}
	return at, at
}

// prefixes are those of keys that services issue.
var prefixes = [...]string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-",
	"sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "AKIA", "ASIA", "AIza", "ya29.", "npm_", "hf_", "SG.", "dop_v1_",
}

// mixed reports whether a word is unlike words of a language: it has a digit, or a capital
// after its first letter.
func mixed(word string) bool {
	return strings.ContainsAny(word, digits) || len(word) > 1 && strings.ToLower(word[1:]) != word[1:]
}

// privateKey returns the size of the private key that a text begins with, or 0.
func privateKey(text string) int {
	const longest = 64 // first line
	first := text[:min(len(text), longest)]
	if kind, _, found := strings.Cut(first, "PRIVATE KEY"); !found || strings.ContainsAny(kind, "\r\n") {
		return 0
	}
	const last = "-----END "
	end := strings.Index(text, last)
	if end < 0 {
		return len(text)
	}
	end += len(last)
	return end + index(text[end:], strings.Index(text[end:], "-----")) + min(len("-----"), len(text)-end)
}

// wordSize returns the size of a value without quotes. Punctuation behind it is not a part of it.
func wordSize(value string) int {
	word := value[:index(value, strings.IndexAny(value, spaces+quotes+"&;<"))]
	return len(strings.TrimRight(word, ".,:)]}>"))
}

// runSize returns the size of the word at the beginning of a text, without dots behind it.
func runSize(text string) int {
	n := 0
	for n < len(text) && runByte(text[n]) {
		n++
	}
	return len(strings.TrimRight(text[:n], "."))
}

func lineOf(text string) string { return text[:index(text, strings.IndexAny(text, "\r\n"))] }

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// runByte reports whether c may be in a name or a key.
func runByte(c byte) bool { return wordByte(c) || c == '-' || c == '.' }

func alphanumeric(r rune) bool { return r > 0x7f || wordByte(byte(r)) && r != '_' }

// closingQuote returns where a quoted text ends, or -1: before a quote that is
// not escaped more often than the opening one.
func closingQuote(s string, escapes int) int {
	for i := range len(s) {
		if s[i] != '"' {
			continue
		}
		if text := strings.TrimRight(s[:i], `\`); i-len(text) <= escapes {
			return len(text)
		}
	}
	return -1
}

// index returns i as [strings.Index] returns it, or the length of s if it is
// negative.
func index(s string, i int) int {
	if i < 0 {
		return len(s)
	}
	return i
}
