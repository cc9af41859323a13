package known

import "encoding/json"

// mute has the error variables of packages that this one must not link, or cannot: each is a value
// of errors.New, so its package gives it nothing but a text. They are compared as a whole, and
// nothing is concluded from a part of a text. Most say that something is not there.
//
// What is not listed stays Unknown: a "not found" may be anybody's, and its author may wait for the
// thing. A status line is HTTP's own: many clients return errors.New(response.Status).
var mute = map[string]Fact{
	"sql: no rows in result set":                                 Permanent("sql_no_rows"),
	"sql: transaction has already been committed or rolled back": Permanent("sql_tx_done"),
	"sql: database is closed":                                    Permanent("closed"),
	"sql: connection is already closed":                          Unapplied("sql_conn_done"),
	"driver: bad connection":                                     Unapplied("sql_bad_conn"),
	"invalid connection":                                         Transient("mysql_invalid_conn"), // go-sql-driver: something was sent
	"conn closed":                                                Transient("closed"),             // pgconn, also in the middle of a statement
	"closed pool":                                                Permanent("closed"),             // pgxpool
	"tx is closed":                                               Permanent("sql_tx_done"),        // pgx
	"too many rows in result set":                                Permanent("invalid"),            // pgx
	"commit unexpectedly resulted in rollback":                   Permanent("sql_25P02"),          // pgx
	"pq: could not complete operation in a failed transaction":   Permanent("sql_25P02"),
	"pq: Could not complete operation in a failed transaction":   Permanent("sql_25P02"),
	"executable file not found in $PATH":                         Permanent("not_found"), // os/exec
	"executable file not found in %PATH%":                        Permanent("not_found"),

	"record not found":                 Permanent("not_found"), // gorm
	"mongo: no documents in result":    Permanent("not_found"),
	"redigo: nil returned":             Permanent("not_found"),
	"redis: client is closed":          Permanent("closed"),
	"memcache: cache miss":             Permanent("not_found"),
	"leveldb: not found":               Permanent("not_found"),
	"nats: key not found":              Permanent("not_found"),
	"nats: key was deleted":            Permanent("not_found"),
	"nats: bucket not found":           Permanent("not_found"),
	"nats: object not found":           Permanent("not_found"),
	"datastore: no such entity":        Permanent("not_found"),
	"storage: object doesn't exist":    Permanent("not_found"),
	"storage: bucket doesn't exist":    Permanent("not_found"),
	"dynamo: no item found":            Permanent("not_found"), // guregu/dynamo
	"pebble: not found":                Permanent("not_found"),
	"pebble: closed":                   Permanent("closed"),
	"no such image":                    Permanent("not_found"), // go-dockerclient
	"zk: node does not exist":          Permanent("not_found"), // go-zookeeper
	"zk: node already exists":          Permanent("exists"),
	"zk: node has children":            Permanent("exists"),
	"zk: version conflict":             Permanent("exists"),
	"zk: client authentication failed": Permanent("permission"),
	"zk: invalid ACL specified":        Permanent("invalid"),

	"Key not found":                          Permanent("not_found"), // badger
	"Transaction Conflict. Please retry":     Unapplied("temporary"),
	"Txn is too big to fit into one request": Permanent("invalid"),
	"DB Closed":                              Permanent("closed"),

	"fasthttp: too many redirects detected when doing the request": Permanent("invalid"),
	"fasthttp: body size exceeds the given limit":                  Permanent("invalid"),
	"fasthttp: no free connections available to host":              Unapplied("resources"),

	"unacceptable protocol version": Permanent("unsupported"), // the four refusals of paho.mqtt.golang
	"identifier rejected":           Permanent("permission"),
	"bad user name or password":     Permanent("permission"),
	"not Authorized":                Permanent("permission"),

	"400 Bad Request":          Permanent("http_400"),
	"401 Unauthorized":         Permanent("http_401"),
	"403 Forbidden":            Permanent("http_403"),
	"404 Not Found":            Permanent("http_404"),
	"405 Method Not Allowed":   Permanent("http_405"),
	"409 Conflict":             Permanent("http_409"),
	"410 Gone":                 Permanent("http_410"),
	"422 Unprocessable Entity": Permanent("http_422"),
	"429 Too Many Requests":    Throttled("http_429"),
}

// ofText classifies an error that is Mute.
func ofText(err error) Fact { return mute[err.Error()] }

// cutJSON reports whether a text of JSON ends too early, for which the error has no field.
func cutJSON(err *json.SyntaxError) bool {
	return err != nil && err.Error() == "unexpected end of JSON input"
}
