package redact

import (
	"regexp"
	"strings"
)

// standing returns the size of the secret with which a word begins, if it is one that says so
// itself, and how much before it is shown. run is the size of the word, without dots behind it.
func (s *scanner) standing(text string, run int) (shown, size int) {
	word, after := text[:run], text[run:]
	switch {
	case len(word) > 16 && strings.HasPrefix(word, "eyJ") && strings.Contains(word, "."): // a JSON web token
		return 0, run
	case strings.HasPrefix(after, " ") && (strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic")):
		if size = s.bare(after[1:]); size >= 8 && mixed(after[1:1+size]) {
			return run + 1, size
		}
	case run < 20 && (strings.HasPrefix(after, ":") || strings.HasPrefix(after, "~")):
		return 0, len(split.FindString(text[:min(len(text), 64)]))
	case strings.HasPrefix(after, "/"):
		if path := webhooks[word]; path != "" && strings.HasPrefix(after, path) {
			return run + len(path), s.bare(after[len(path):])
		}
	}
	if run >= 20 {
		if len(shapes.FindString(word)) == run {
			return 0, run
		}
		for _, prefix := range prefixes[word[0]] {
			if strings.HasPrefix(word, prefix) && solid(word[len(prefix):]) {
				return 0, run + len(after) - len(strings.TrimLeftFunc(after, keyRune))
			}
		}
	}
	return 0, 0
}

// webhooks are hosts whose paths are secrets.
var webhooks = map[string]string{
	"hooks.slack.com": "/services/", "discord.com": "/api/webhooks/", "discordapp.com": "/api/webhooks/",
	"hooks.zapier.com": "/hooks/catch/", "webhook.office.com": "/webhookb2/", "outlook.office.com": "/webhook/",
}

var (
	// shapes are those of keys without a prefix: a seed of NATS, keys of Twilio, Mailgun, Mailchimp.
	shapes = regexp.MustCompile(`^(?:S[UANOCX][A-Z2-7]{56}|SK[0-9a-f]{32}|key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2})`)

	// split are those of more than one word: what Telegram has in the paths of its URLs, and a
	// client secret of Entra ID.
	split = regexp.MustCompile(`^(?:(?:bot)?\d{5,16}:AA[\w-]{33}|[\w.-]{3}\dQ~[\w.~-]{31,34})`)
)

// prefixes are those of keys that services issue, by their first byte. Each is in the
// documentation of its service, or of its scanner of secrets.
var prefixes = func() (by [256][]string) {
	for prefix := range strings.FieldsSeq(`
		ghp_ gho_ ghu_ ghs_ ghr_ github_pat_
		glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- glffct- GR1348941
		ATATT3 ATCTT3 ATBB BBDC- CCIPAT_ bkua_ nfp_ HRKU- fo1_ fm1_ fm2_ pul- tfp_ dckr_pat_ dckr_oat_ npm_ pypi- rubygems_ CLOJARS_
		xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxp- xoxr- xoxs- xapp-
		AKIA ASIA ABIA ACCA ABSK AIza ya29. GOCSPX- LTAI AKID dapi dop_v1_ doo_v1_ dor_v1_ dp.pt. dp.st. dp.ct.
		sk_live_ sk_test_ rk_live_ rk_test_ whsec_ sq0atp- sq0csp- EAAA shpat_ shpca_ shppa_ shpss_ EZAK EZTK FLWSECK shippo_
		sk- sk.eyJ gsk_ xai- pplx- r8_ hf_ api_org_ SG. xkeysib- PMAK- pat-na1- pat-eu1- ntn_ secret_ figd_ lin_api_ lin_oauth_
		hvs. hvb. hvr. tskey- ops_ AGE-SECRET-KEY-1 pnu_ pscale_tkn_ pscale_pw_ pscale_oauth_ sbp_ sb_secret_
		sntrys_ sntryu_ glsa_ glc_ NRAK- NRJS- NRII- NRAA- dt0c01. dt0s16. sgp_ rdme_ duffel_live_ duffel_test_ AKCp aio_ CFPAT-
		`) {
		by[prefix[0]] = append(by[prefix[0]], prefix)
	}
	return by
}()

// mixed reports whether a word is unlike words of a language: it has a digit, or a capital
// after its first letter.
func mixed(word string) bool {
	return strings.ContainsAny(word, digits) || len(word) > 1 && strings.ToLower(word[1:]) != word[1:]
}

// solid reports whether a part of a key looks random: nine letters and digits that are mixed.
func solid(key string) bool {
	for part := range strings.FieldsFuncSeq(key, func(r rune) bool { return !alphanumeric(r) }) {
		if len(part) >= 9 && mixed(part) {
			return true
		}
	}
	return false
}

// keyRune reports whether r may be in a key in Base64.
func keyRune(r rune) bool { return r < 0x80 && (runByte(byte(r)) || strings.ContainsRune("+/=~", r)) }

// privateKey returns the size of the private key that a text begins with, or 0. A key that
// was cut off ends with the text, or with the line of its end.
func privateKey(text string) int {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	const longest = 64 // first line
	if first := lineOf(text[:min(len(text), longest)]); !strings.HasPrefix(first, begin) ||
		!strings.Contains(first, "PRIVATE KEY") && !strings.Contains(first, "NKEY SEED") {
		return 0
	}
	_, rest, found := strings.Cut(text, end)
	if !found {
		return len(text)
	}
	line := lineOf(rest)
	if last, _, found := strings.Cut(line, dashes); found {
		line = line[:len(last)+len(dashes)]
	}
	return len(text) - len(rest) + len(line)
}
