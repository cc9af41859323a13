package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/redact"
)

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
