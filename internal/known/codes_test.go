package known //nolint:testpackage // of what is not exported

import (
	"errors"
	"fmt"
	"io"
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
	type named struct{ Type, ExceptionCode, ResponseCode int }
	type coded struct{ code int }
	type caused struct{ Err error }
	type worded struct {
		ErrCode int
		Reason  string
	}
	type statement struct {
		SQLite *struct{ Code, ExtendedCode int }
	}
	type list struct{ Errors []struct{ Code int } }
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
		{"capnproto.org/go/capnp/v3/exc", named{Type: 1}, "3 capnp_overloaded"},
		{"capnproto.org/go/capnp/v3/exc", named{Type: 3}, "1 capnp_unimplemented"},
		{"capnproto.org/go/capnp/v3/exc", named{}, "0 "},
		{"github.com/goburrow/modbus", named{ExceptionCode: 2}, "1 modbus_2"},
		{"github.com/goburrow/modbus", named{ExceptionCode: 6}, "3 modbus_6"},
		{"github.com/goburrow/modbus", named{ExceptionCode: 4}, "0 "},
		{"github.com/simonvetter/modbus", "illegal function", "1 modbus_1"},
		{"github.com/simonvetter/modbus", "request timed out", "0 "},
		{"github.com/apache/rocketmq-client-go/v2/primitive", named{ResponseCode: 2}, "3 rocketmq_2"},
		{"github.com/apache/rocketmq-client-go/v2/primitive", named{ResponseCode: 13}, "1 rocketmq_13"},
		{"github.com/apache/rocketmq-client-go/v2/primitive", named{ResponseCode: 17}, "0 "},
		{"github.com/tarantool/go-tarantool/v3", code{Code: 3}, "1 tarantool_3"},
		{"github.com/tarantool/go-tarantool/v3", code{Code: 97}, "2 tarantool_97"},
		{"github.com/tarantool/go-tarantool/v3", code{Code: 0x4004}, "3 tarantool_16388"},
		{"github.com/kurrent-io/KurrentDB-Client-Go/kurrentdb", coded{4}, "1 kurrentdb_4"},
		{"github.com/kurrent-io/KurrentDB-Client-Go/kurrentdb", coded{13}, "0 "},
		{"github.com/kurrent-io/KurrentDB-Client-Go/kurrentdb", coded{17}, "2 kurrentdb_17"},
		{"github.com/rqlite/gorqlite", statement{&struct{ Code, ExtendedCode int }{19, 2067}}, "1 sqlite_2067"},
		{"github.com/rqlite/gorqlite", statement{&struct{ Code, ExtendedCode int }{5, 0}}, "2 sqlite_5"},
		{"github.com/rqlite/gorqlite", statement{}, "0 "},
		{"github.com/dghubble/go-twitter/twitter", list{[]struct{ Code int }{{88}, {34}}}, "3 x_88"},
		{"github.com/dghubble/go-twitter/twitter", list{[]struct{ Code int }{{34}}}, "1 x_34"},
		{"github.com/dghubble/go-twitter/twitter", list{}, "0 "},
		{"github.com/nsqio/go-nsq", worded{Reason: "E_BAD_TOPIC PUB topic name is not valid"}, "1 nsq_bad_topic"},
		{"github.com/nsqio/go-nsq", worded{Reason: "E_PUB_FAILED PUB failed exiting"}, "2 nsq_pub_failed"},
		{"github.com/nsqio/go-nsq", worded{Reason: "E_BAD_TOPICS"}, "0 "},
		{"github.com/btcsuite/btcd/btcjson", code{Code: -28}, "2 bitcoin_28"},
		{"github.com/btcsuite/btcd/btcjson", code{Code: -8}, "1 bitcoin_8"},
		{"github.com/btcsuite/btcd/btcjson", code{Code: -32601}, "1 jsonrpc_32601"},
		{"github.com/btcsuite/btcd/btcjson", code{Code: -1}, "0 "},
		{"github.com/silenceper/wechat/v2/util", worded{ErrCode: -1}, "2 wechat_-1"},
		{"github.com/silenceper/wechat/v2/util", worded{ErrCode: 45011}, "3 wechat_45011"},
		{"github.com/silenceper/wechat/v2/util", worded{ErrCode: 45009}, "1 quota_exhausted"},
		{"github.com/silenceper/wechat/v2/util", worded{ErrCode: 40003}, "1 wechat_40003"},
		{"github.com/silenceper/wechat/v2/util", worded{ErrCode: 40001}, "0 "},
		{"github.com/beanstalkd/go-beanstalk", caused{errors.New("not found")}, "1 not_found"},
		{"github.com/beanstalkd/go-beanstalk", caused{errors.New("draining")}, "2 temporary"},
		{"github.com/beanstalkd/go-beanstalk", caused{errors.New("internal error")}, "0 "},
		{"github.com/beanstalkd/go-beanstalk", caused{io.ErrUnexpectedEOF}, "0 "},
		{"github.com/beanstalkd/go-beanstalk", caused{}, "0 "},
		{"storj.io/drpc/drpcerr", coded{12}, "1 unsupported"},
		{"storj.io/drpc/drpcerr", coded{1}, "0 "},
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

// A request of rqlite may have more statements than the one that failed.
func TestRqliteSaysNothingOfOtherStatements(t *testing.T) {
	t.Parallel()
	f, _, _ := rqlite(reflect.ValueOf(struct{ SQLite struct{ Code int } }{struct{ Code int }{5}}), "StatementError")
	assert.Equal(t, Transient("sqlite_5"), f)
}

// TestCoAP has the codes as they are written: a digit, and two.
func TestCoAP(t *testing.T) {
	t.Parallel()
	for status, want := range map[int64]Fact{
		205: {}, 404: Permanent("coap_404"), 408: Transient("coap_408"), 429: Rejected("coap_429"),
		500: Transient("coap_500"), 501: Permanent("coap_501"), 503: Transient("coap_503"), 505: Permanent("coap_505"),
	} {
		assert.Equal(t, want, coap(status/100<<5|status%100), status)
	}
	for _, code := range []int64{0, -1, 225, 10001, 1 << 40} { // those above 10000 are of go-coap
		assert.Equal(t, Fact{}, coap(code), code)
	}
}

// TestRefusals has what a name says of a request that would be refused again, and what may pass.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"NoSuchContainer", "ErrNoSuchBucket", "UnsupportedMediaTypeError", "InvalidURLError", "ErrInvalidKey", "InvalidParameterException",
		"ErrMetaTooLarge", "JobTooBig", "ArgumentNullException", "OPERATION_NOT_ALLOWED", "AuthorizationRequiredError", "TopicDoesNotExist", "RequestEntityTooLargeError", "MESSAGE_SIZE_EXCEEDED", "NotSupported", "ErrUnimplemented",
	} {
		assert.Equal(t, Final, refused(name).Class, name)
	}
	for _, name := range []string{
		"InvalidResponseError", "InvalidContentTypeError", "InvalidDBInstanceStateFault", "InvalidSessionError", "Invalid",
		"QueueTooLarge", "ReplicationLagTooLargeError", "TooLarge", "OperationTookTooLongError", "PoolSizeExceeded",
		"AlreadyRunning", "UnknownHostError", "no such container", "NotSuch", "",
	} {
		assert.Equal(t, Fact{}, refused(name), name)
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
