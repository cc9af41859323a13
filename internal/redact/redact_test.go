package redact_test

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/redact"
)

func TestText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"no URL", "dial tcp 127.0.0.1:80: connect: connection refused", "dial tcp 127.0.0.1:80: connect: connection refused"},
		{"plain URL", "http://example.com:8080/a/b", "http://example.com:8080/a/b"},
		{"password", "https://user:pass@example.com/a", "https://example.com/a"},
		{"token for a user", "https://ghp_x@github.com/a.git", "https://github.com/a.git"},
		{"several @", "https://user:p@ss@w@example.com/@x", "https://example.com/@x"},
		{"encoded user", "https://us%40er:p%2Fss@example.com/", "https://example.com/"},
		{"queries", "http://h/x?a=1&b=2&&c", "http://h/x?a=***&b=***&&***"},
		{"empty query", "http://h/x? and so on", "http://h/x? and so on"},
		{"query without a key", "http://h/x?secret", "http://h/x?***"},
		{"equals sign in the value", "http://h/?a=b=c", "http://h/?a=***"},
		{"URL for a key", "http://h/?http://u:p@h/=1", "http://h/?***"},
		{"URL for a value", "http://h/?next=http://u:p@h/?a=b&c=d", "http://h/?next=***&c=***"},
		{"fragment", "http://h/x#access_token=secret", "http://h/x"},
		{"IPv6", "http://user:pass@[::1]:8080/x", "http://[::1]:8080/x"},
		{"IPv6 with a zone", "http://[fe80::1%25eth0]/x", "http://[fe80::1%25eth0]/x"},
		{"international host", "http://user@bücher.example/x", "http://bücher.example/x"},
		{"many hosts", "mongodb://u:p@a:1,b:2/db?x=y", "mongodb://a:1,b:2/db?x=***"},
		{"no host", "file:///etc/hosts", "file:///etc/hosts"},
		{"no scheme", "://u:p@h/", "://h/"},
		{"relative to the scheme", "Location: //u:p@h/x?a=b", "Location: //h/x?a=***"},
		{"token, relative to the scheme", "//ghp_x@h/x", "//h/x"},
		{"relative", `Get "/x?token=secret": unsupported protocol scheme ""`, `Get "/x?token=***": unsupported protocol scheme ""`},
		{"without a scheme", `Get "localhost:80/x?token=secret": unsupported`, `Get "localhost:80/x?token=***": unsupported`},
		{"password without a scheme", "dial user:pass@example.com:5432/db", "dial example.com:5432/db"},
		{"password with a slash, without a scheme", "user:pa/ss@h", "***"},
		{"no password", "localhost:8080/@user/x", "localhost:8080/@user/x"},
		{"address of mail", "joe@example.com", "joe@example.com"},
		{"scp", "git@github.com:org/repo", "git@github.com:org/repo"},
		{
			"url.Error", `Get "https://user:***@h/x?token=secret": dial tcp: lookup h: no such host`,
			`Get "https://h/x?token=***": dial tcp: lookup h: no such host`,
		},
		{"several", `a http://u:p@h/?a=b, "http://u:p@h/?a=b c" (http://u:p@h)`, `a http://h/?a=*** "http://h/?a=***" (http://h)`},
		{"in a path", "http://proxy/http://u:p@h/x?a=b", "http://proxy/http://h/x?a=***"},
		{"encoded in a path", "http://proxy/https%3A%2F%2Fu%3Ap%40h%2F", "http://proxy/https%3A%2F%2F***"},
		{"encoded twice in a path", "http://proxy/https%253a%252F%252fu", "http://proxy/https%253a%252F%252f***"},
		{"in the path of one without a scheme", "u:p@h/http://x@y/?a=b", "h/http://y/?a=***"},
		{"in the path after an @", "h:80/@x/http://u:p@y/", "h:80/@x/http://y/"},
		{"in the path of one relative to the scheme", "//ghp_x@h/http://u:p@y", "//h/http://y"},
		{"in a fragment", "issue#http://u:p@h/", "issue#http://h/"},
		{"after an equals sign", "url=http://u:p@h/", "url=http://h/"},
		{"escaped slashes", `{"url":"http:\/\/u:p@h\/x"}`, `{"url":"***"}`},
		{"JSON", `{"url":"http://u:p@h/x?a=b","code":1}`, `{"url":"http://h/x?a=***","code":1}`},
		{"quoted twice", `"Get \"http://u:p@h/x?a=b c\": EOF"`, `"Get \"http://h/x?a=***\": EOF"`},
		{"space in the password", `parse "http://u:pa ss@h/": net/url: invalid userinfo`, `parse "http://h/": net/url: invalid userinfo`},
		{"quote in the password", `parse "http://u:pa\"ss@h/": oh`, `parse "http://h/": oh`},
		{"slash in the password", `parse "http://u:pa/ss@h/": invalid port ":pa" after host`, `parse "http://***": invalid port "***" after host`},
		{"slash and quote in the password", `"http://u:pa\"/ss@h/": invalid port ":pa\"" after host`, `"http://***": invalid port "***" after host`},
		{"percent sign in the password", `"http://u:p%xy@h/": invalid URL escape "%xy"`, `"http://h/": invalid URL escape "***"`},
		{"encoded @", "http://user%3Apass%40h/", "http://***"},
		{"bad port", "http://h:port/x failed", "http://*** failed"},
		{"space in the password, no quotes", "to http://u:pa ss@h/ failed\nand", "to http://***\nand"},
		{"end of a sentence", "see http://h. Or http://h:80, or <http://h>: no", "see http://h. Or http://h:80, or <http://h>: no"},
		{"not UTF-8", "\xffhttp://u:p@h/\xff?a=\xff", "\xffhttp://h/\xff?a=***"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := redact.Text(test.text)
			assert.Equal(t, test.want, got)
			assert.Equal(t, got, redact.Text(got))
		})
	}
}

// The errors that net/url and net/http really make.
func TestRealErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://s3cret:s3cret@"+r.Host+"/?token=s3cret")
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	for _, rawURL := range []string{
		server.URL, // too many redirects, with the credentials of Location
		"http://s3cret@127.0.0.1:1/x?token=s3cret#s3cret",
		"http://s3cret:s3cret@127.0.0.1:1/",
		"http://u:s3cret s3cret@127.0.0.1/",
		"http://u:s3cret/s3cret@127.0.0.1/",
		"http://u:s3cret\"/s3cret@127.0.0.1/",
		"http://u:s3cret\n/s3cret@127.0.0.1/",
		"http://u:s3cret?s3cret@127.0.0.1/",
		"http://u:s3cret#s3cret@127.0.0.1/",
		"http://u:s3cret%s3cret@127.0.0.1/",
		"http://u:s3cret\x7f@127.0.0.1/",
		"http://u%3as3cret%40127.0.0.1/",
		"http://[u:s3cret@127.0.0.1/",
		"//u:s3cret@127.0.0.1/",
		"/x?token=s3cret",
		"u:s3cret@127.0.0.1/",
		"u_x:s3cret@127.0.0.1/",
		"ftp://u:s3cret@127.0.0.1/?token=s3cret",
	} {
		_, err := client.Get(rawURL)
		require.Error(t, err, rawURL)
		for _, text := range []string{err.Error(), fmt.Sprintf("%q", err), fmt.Sprintf("task: %v; then %q", err, err)} {
			assert.NotContains(t, redact.Text(text), "s3cret", "%s", text)
		}
		var wrapped *url.Error
		require.ErrorAs(t, err, &wrapped)
		assert.Contains(t, redact.Text(err.Error()), ": "+redact.Text(wrapped.Err.Error()), "the reason stays")
	}
}

// Patterns that must not be in a redacted text.
var (
	userinfo   = regexp.MustCompile(`://[^/?#\s"]*@`)
	queryValue = regexp.MustCompile(`://[^\s"#?]*\?(?:[^\s=&#"]*=(?:\*\*\*)?&)*[^\s=&#"]*=[^*&\s"]`)
)

// A text that a server has made as long as it liked is cut, but not where the rest would
// look harmless.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	for _, url := range []string{
		`"http://me:123@host/x?q=123": no`, `http://me:123@host/x?q=123`, `"http://12:3 123@host/": no`, `"//me:123@host/"`,
	} {
		for at := range len(url) {
			text := strings.Repeat("x", limit-at-1) + " " + url + " " + strings.Repeat("y", 100)
			shown := redact.Text(text)
			require.NotContains(t, shown, "123", "%q, cut at %d: %q", url, at, shown[max(len(shown)-40, 0):])
		}
	}
	long := strings.Repeat("x", limit)
	for text, want := range map[string]string{
		long:                                      long,
		long + "x":                                "…",
		"http://host/path?q=" + long:              "…",
		`malformed HTTP response "` + long + `"`:  "malformed HTTP response …",
		"no route to the host " + long:            "no route to the host …",
		`Get "http://host/?q=a": ` + long + " no": `Get "http://host/?q=***": …`,
	} {
		assert.Equal(t, want, redact.Text(text), "%.60q", text)
		assert.Equal(t, want, redact.Text(want))
	}
}

func FuzzText(f *testing.F) {
	for _, text := range []string{
		`Get "https://user:pass@h/x?token=secret#f": EOF`, "a http://u:p@h/?a=b http://u@[::1]:80/x",
		`"http://u:pa ss@h/"`, `\"http://u:p\"a@h/\"`, "//u@h?x", "u:p@h/x?a=b", "http://p/http%3A%2F%2Fu@h",
		`invalid port ":x" after host`, "http://h:x\n@", "://", "\"/", "?=", "#=",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := redact.Text(text)
		assert.Equal(t, got, redact.Text(got), "%q", text)
		assert.NotRegexp(t, userinfo, got, "%q", text)
		assert.NotRegexp(t, queryValue, got, "%q", text)
	})
}

// A URL of any parts, in any surroundings.
func FuzzURL(f *testing.F) {
	f.Add("dial ", "user", "pass", "h:80", "/x", "token", "value", "f", " failed")
	f.Add("(", "a b", `"`, "[::1]", "/%2F ", "a&b", "=", "#", ")")
	f.Fuzz(func(t *testing.T, before, user, password, host, path, key, value, fragment, after string) {
		const secret = "s3cret"
		if strings.Contains(before+host+path+key+after, secret) {
			return
		}
		u := url.URL{
			Scheme:   "https",
			User:     url.UserPassword(user+secret, password+secret),
			Host:     host,
			Path:     path,
			RawQuery: url.Values{key: {value + secret}}.Encode(),
			Fragment: fragment + secret,
		}
		if _, err := url.Parse(u.String()); err != nil {
			return // TestRealErrors has those
		}
		err := &url.Error{Op: "Get", URL: u.String(), Err: errors.New(after)}
		for _, text := range []string{before + u.String() + " " + after, before + err.Error(), fmt.Sprintf("%s%q", before, err)} {
			assert.NotContains(t, redact.Text(text), secret, "%q", text)
		}
	})
}

const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// TestSecrets: everything that looks like a password, a token or a key is hidden.
func TestSecrets(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"password=hunter2", "password=***"},
		{"login failed: password=hunter2, user=joe", "login failed: password=***, user=joe"},
		{"(PASSWORD=hunter2)", "(PASSWORD=***)"},
		{"password: hunter2", "password: ***"},
		{"password: swordfish\nuser: joe", "password: ***\nuser: joe"},
		{"password: p@ssword for joe", "password: *** for joe"},
		{`password="two words" x`, `password="***" x`},
		{`password='two words' x`, `password='***' x`},
		{`password="two words`, `password="***`},
		{`{"password":"hunter2","user":"joe"}`, `{"password":"***","user":"joe"}`},
		{`{"password": "swordfish"}`, `{"password": "***"}`},
		{`"{\"password\":\"hun\\\"ter2\"}"`, `"{\"password\":\"***\"}"`},
		{`:password=>"swordfish"`, `:password=>"***"`},
		{"{User:joe Password:swordfish}", "{User:joe Password:***}"},
		{"map[password:swordfish user:joe]", "map[password:*** user:joe]"},
		{"PGPASSWORD=swordfish psql", "PGPASSWORD=*** psql"},
		{"Server=h;Uid=joe;Pwd=swordfish;Port=1", "Server=h;Uid=joe;Pwd=***;Port=1"},
		{"psql --password hunter2 -h h", "psql --password *** -h h"},
		{"curl --token=abc", "curl --token=***"},
		{"api key: abc123", "api key: ***"},
		{"X-Api-Key: 0123-4567", "X-Api-Key: ***"},
		{"invalid token: abc123def", "invalid token: ***"},
		{"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=***"},
		{"AccountName=a;AccountKey=abc==;Suffix=x", "AccountName=a;AccountKey=***;Suffix=x"},
		{"grant_type=x&refresh_token=abc&client_secret=def", "grant_type=x&refresh_token=***&client_secret=***"},
		{"Authorization: Bearer abc", "Authorization: Bearer ***"},
		{"Authorization: Basic dTpw: 401", "Authorization: Basic ***: 401"},
		{"Proxy-Authorization: abc123", "Proxy-Authorization: ***"},
		{`authorization: Digest username="u", response="r"` + "\nHost: h", "authorization: Digest ***\nHost: h"},
		{`{"Authorization":"Bearer abc"}`, `{"Authorization":"***"}`},
		{"map[Authorization:[Bearer abc] Cookie:[a=b; c=d] Host:[h]]", "map[Authorization:[***] Cookie:[***] Host:[h]]"},
		{"sent Basic dXNlcjpwYXNz.", "sent Basic ***."},
		{"Set-Cookie: sid=abc; Path=/\nHost: h", "Set-Cookie: ***\nHost: h"},
		{"Cookie: a=b; c=d", "Cookie: ***"},
		{"bad token " + jwt + ".", "bad token ***."},
		{"push with ghp_16C7e42F292c6912E7710c838347Ae178B4a: refused", "push with ***: refused"},
		{"key AKIAIOSFODNN7EXAMPLE is unknown", "key *** is unknown"},
		{"Incorrect API key provided: sk-proj-abcDEF123456789012345", "Incorrect API key provided: ***"},
		{"postgres://joe:swordfish@h/db?password=x", "postgres://h/db?password=***"},
		{"joe:swordfish@tcp(h:3306)/db", "***"},
		{"a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"},
		{`"-----BEGIN PRIVATE KEY-----\nabc`, `"***`},
	}
	for _, tt := range tests {
		got := redact.Text(tt.text)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, got, redact.Text(got))
	}
}

// TestCut: no secret is cut in two.
func TestCut(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "password=*** …", redact.Cut("password=hunter2 ééé", 16))
	assert.Equal(t, "password=***", redact.Cut("password="+strings.Repeat("x", 100), 12))
	assert.Equal(t, "éé…", redact.Cut("éééé", 7))
}

var (
	//go:embed testdata/secrets.txt
	secretTexts string
	//go:embed testdata/prose.txt
	proseTexts string
)

// table returns the texts of a file: one a line.
func table(file string) (texts []string) {
	for line := range strings.Lines(file) {
		if !strings.HasPrefix(line, "# ") {
			texts = append(texts, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "⏎", "\n"))
		}
	}
	return texts
}

// What clients print: no part of a secret is left. Prose stays as it is.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, text := range table(secretTexts) {
		got, settled := redact.Settle(text)
		assert.True(t, settled, "%q", text)
		assert.False(t, strings.Contains(got, "Zq7") || strings.Contains(got, "hunter2"), "%q\nkeeps %q", text, got)
		assert.Equal(t, got, redact.Text(got))
	}
	for _, text := range table(proseTexts) {
		assert.Equal(t, text, redact.Text(text))
	}
}

// Whatever is cut off, and wherever: nothing panics, the text does not grow for ever, and it
// stays the same the next time.
func FuzzForms(f *testing.F) {
	forms := table(secretTexts)
	pick := func(n uint) string { return forms[n%uint(len(forms))] }
	for n := range uint(len(forms)) {
		f.Add(n, n/2, n+1, n/3, "", "\n", "")
	}
	f.Fuzz(func(t *testing.T, one, end, two, begin uint, before, between, after string) {
		a, b := pick(one), pick(two)
		text := before + a[:end%uint(len(a)+1)] + between + b[begin%uint(len(b)+1):] + after
		got, settled := redact.Settle(text)
		assert.True(t, settled, "%q", text)
		assert.LessOrEqual(t, len(got), 2*len(text)+3, "%q", text)
	})
}

// A secret is hidden in any surroundings.
func FuzzSecrets(f *testing.F) {
	f.Add("login: ", ", x")
	f.Add(`"\"`, "'\n")
	f.Add("http://u:p@h/?a=b ", "#x")
	f.Add("-----BEGIN PRIVATE KEY-----", "[")
	f.Add("w///p/pw:", "@")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "s3cret") || !utf8.ValidString(before+after) {
			return
		}
		for _, form := range []string{
			" password=s3cret ", "\npassword: s3cret\n", ` "token": "a s3cret" `, "\nAuthorization: Bot s3cret\n", " " + jwt[:40] + "s3cret ",
			"\nDB_PASSWORD=a;&s3cret\n", "<Password>s3cret</Password>", ` {"secret": ["s3cret"]} `, "\nkey: sk_live_s3cretA1b2C3d4E5\n",
		} {
			got, settled := redact.Settle(before + form + after)
			assert.NotContains(t, got, "s3cret", "%q", before+form+after)
			assert.True(t, settled, "%q", before+form+after)
		}
	})
}
