package known //nolint:testpackage // of what is not exported

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCodesOfPackages asks the rows of packages whose modules are no requirements of a test: see
// fieldtest, which has the real ones.
func TestCodesOfPackages(t *testing.T) {
	t.Parallel()
	type code struct{ Code, ErrorCode, StatusCode, HTTPStatusCode, Argument, result int }
	type condition struct{ Type, Condition, Err string }
	type reply struct{ S string }
	type params struct {
		ErrorCode  int
		Parameters *struct{ RetryAfter int }
	}
	for _, test := range []struct {
		path string
		err  any
		want string // the class and the category, or the status
	}{
		{"gocloud.dev/internal/gcerr", code{Code: 2}, "1 not_found"},
		{"gocloud.dev/internal/gcerr", code{Code: 9}, "3 gocloud_9"},
		{"gocloud.dev/internal/gcerr", code{Code: 1}, "0 "},
		{"mellium.im/xmpp/stanza", condition{Type: "wait", Condition: "resource-constraint"}, "2 xmpp_wait"},
		{"mellium.im/xmpp/stanza", condition{Type: "cancel", Condition: "service-unavailable"}, "1 xmpp_cancel"},
		{"mellium.im/xmpp/stream", condition{Err: "system-shutdown"}, "2 xmpp_system-shutdown"},
		{"mellium.im/xmpp/stream", condition{Err: "not-authorized"}, "1 xmpp_not-authorized"},
		{"mellium.im/xmpp/stream", condition{Err: "undefined-condition"}, "0 "},
		{"github.com/openai/openai-go/v3/internal/apierror", code{StatusCode: 409}, "2 http_409"},
		{"github.com/stripe/stripe-go/v85", code{HTTPStatusCode: 409}, "2 http_409"},
		{"github.com/stripe/stripe-go/v85", code{HTTPStatusCode: 404}, "0 "},
		{"github.com/apache/pulsar-client-go/pulsar", code{result: 8}, "1 pulsar_8"},
		{"github.com/apache/pulsar-client-go/pulsar", code{result: 19}, "3 pulsar_19"},
		{"github.com/adshao/go-binance/v2/common", code{Code: -1003}, "3 binance_1003"},
		{"github.com/adshao/go-binance/v2/common", code{Code: -1121}, "1 binance_1121"},
		{"github.com/adshao/go-binance/v2/common", code{Code: -1007}, "2 binance_1007"},
		{"github.com/mrz1836/postmark", code{ErrorCode: 406}, "1 postmark_406"},
		{"github.com/mrz1836/postmark", code{ErrorCode: 100}, "2 postmark_100"},
		{"github.com/ncw/swift/v2", code{StatusCode: 498}, "3 http_498"},
		{"github.com/centrifugal/centrifuge-go", code{Code: 103}, "1 centrifugo_103"},
		{"github.com/centrifugal/centrifuge-go", code{Code: 111}, "3 centrifugo_111"},
		{"github.com/gopcua/opcua/ua", uint32(0x801f0000), "1 opcua_801f0000"},
		{"github.com/gopcua/opcua/ua", uint32(0x800a0000), "2 opcua_800a0000"},
		{"github.com/jcmturner/gokrb5/v8/messages", code{ErrorCode: 24}, "1 krb_24"},
		{"github.com/jcmturner/gokrb5/v8/messages", code{ErrorCode: 29}, "2 krb_29"},
		{"github.com/digitalocean/go-libvirt", code{Code: 42}, "1 libvirt_42"},
		{"github.com/digitalocean/go-libvirt", code{Code: 68}, "2 libvirt_68"},
		{"github.com/gotd/td/tgerr", code{Code: 420, Argument: 30}, "420 30s"},
		{"github.com/mymmrac/telego/telegoapi", params{429, &struct{ RetryAfter int }{5}}, "429 5s"},
		{"github.com/mediocregopher/radix/v4/resp/resp3", reply{"LOADING x"}, "2 redis_loading"},
		{"gopkg.in/mgo.v2", code{Code: 11000}, "1 mongo_11000"},
	} {
		f, status, after := judgeOf(test.path)(reflect.ValueOf(test.err), "Error")
		got := fmt.Sprint(f.Class, " ", f.Category)
		if status != 0 {
			got = strings.TrimSuffix(fmt.Sprint(status, " ", after), " 0s")
		}
		assert.Equal(t, test.want, got, "%s %v", test.path, test.err)
	}
}

func TestUnversioned(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"github.com/redis/go-redis/v9/internal/proto": "github.com/redis/go-redis/internal/proto",
		"gopkg.in/telebot.v4":                         "gopkg.in/telebot",
		"github.com/hashicorp/vault/api":              "github.com/hashicorp/vault/api",
		"a/v2/b/v3":                                   "a/b",
		"v2":                                          "v2",
		"a/v2x/v/vv2":                                 "a/v2x/v/vv2",
		"":                                            "",
	} {
		assert.Equal(t, want, unversioned(path))
	}
}
