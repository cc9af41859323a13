package known

import (
	"maps"
	"reflect"
	"strings"
	"sync/atomic"
)

// role is what a field of an error means, by its name.
type role uint8

const (
	roleNone role = iota
	roleStatus
	roleHeader
	roleResponse
	roleWait
	roleSeconds
	roleReason
	roleList       // of reasons
	roleExtensions // of GraphQL
	roleSQLState
	roleHope // true if another attempt may help
	roleCause
)

var roles = map[string]role{
	"StatusCode":     roleStatus,
	"HTTPStatusCode": roleStatus,
	"Status":         roleStatus, // twilio-go
	"HTTPStatus":     roleStatus,
	"HttpStatus":     roleStatus,
	"HttpStatusCode": roleStatus,
	"HTTPCode":       roleStatus,
	"HttpCode":       roleStatus, // qiniu

	"ResponseStatusCode": roleStatus, // kiota, of Microsoft Graph
	"statusCode":         roleStatus,
	"responseStatusCode": roleStatus, // openfga
	"status":             roleStatus, // svix

	"Header":          roleHeader,
	"Headers":         roleHeader,
	"ResponseHeader":  roleHeader, // gophercloud
	"ResponseHeaders": roleHeader,

	"Response":     roleResponse,
	"Resp":         roleResponse,
	"RawResponse":  roleResponse,
	"LastResponse": roleResponse,
	"HTTPResponse": roleResponse,
	"HttpResponse": roleResponse,

	"RetryAfter":        roleWait,
	"RetryAfterSeconds": roleSeconds,
	"RetryAfterS":       roleSeconds, // qdrant

	"Code":             roleReason,
	"code":             roleReason, // OpenFeature
	"Type":             roleReason,
	"ErrorCode":        roleReason,
	"ErrCode":          roleReason, // of Matrix, of WeChat
	"ErrorName":        roleReason, // of Trino
	"ErrorType":        roleReason, // of OAuth, in zitadel/oidc
	"Reason":           roleReason,
	"DocumentationURL": roleReason,

	"Extensions": roleExtensions,

	"SQLState": roleSQLState, // of drivers that have no method for it

	"Temporary":   roleHope, // goa
	"Timeout":     roleHope,
	"IsTransient": roleHope, // of Facebook
	"CanRetry":    roleHope, // of Matrix

	"Err":              roleCause, // go-git
	"InnerError":       roleCause, // gocb
	"Cause":            roleCause,
	"OriginError":      roleCause, // meilisearch
	"OriginalError":    roleCause,
	"DerivedFromError": roleCause, // weaviate

	"Errors":  roleList, // googleapi
	"Details": roleList, // genai
}

// member is a field that has a role, or is embedded and may have fields that have one.
type member struct {
	index    int
	role     role
	embedded bool
}

// shape is what a type of errors, or of a struct in them, is known by.
type shape struct {
	judge   judge    // what knows the errors of its package, or nil
	name    string   // without the package
	limited Fact     // what the name says; see byName
	refused Fact     // what the name says where nothing else does; see refused
	members []member // of the struct, or of that which it points to
	silent  bool     // it has no method but Error
	wraps   bool     // it only wraps, and its other methods only ask what it wraps
}

// shapes has the shapes of the types that were asked about, because every error of an unknown
// type is asked, and reading its type takes longer than reading its fields. The map is
// replaced, and never changed.
var shapes = func() *atomic.Pointer[map[reflect.Type]*shape] {
	var p atomic.Pointer[map[reflect.Type]*shape]
	p.Store(&map[reflect.Type]*shape{})
	return &p
}()

// mostShapes is more than a program has types of errors, unless it makes them by reflection.
// Then all are read again.
const mostShapes = 500

func shapeOf(t reflect.Type) *shape {
	known := shapes.Load()
	if s, ok := (*known)[t]; ok {
		return s
	}
	s := readShape(t)
	more := map[reflect.Type]*shape{t: s}
	if len(*known) < mostShapes {
		maps.Copy(more, *known)
	}
	shapes.CompareAndSwap(known, &more) // or another has come first, and the next error has its turn
	return s
}

func readShape(t reflect.Type) *shape {
	s := &shape{silent: t.NumMethod() < 2}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s.judge, s.name = judgeOf(t.PkgPath()), t.Name()
	if s.judge == nil && (s.name == "CloseError" || s.name == "ClosedError") {
		s.judge = by("Code", closeCode) // of WebSockets
	}
	if s.judge == nil && (s.name == "GenericOpenAPIError" || s.name == "GenericSwaggerError") {
		s.judge = generated
	}
	s.limited, s.refused = byName(s.name), refused(s.name)
	s.wraps = t.PkgPath() == "os" && s.name == "SyscallError" || t.PkgPath() == "io/fs" && s.name == "PathError"
	if t.Kind() != reflect.Struct {
		return s
	}
	ofStatus := strings.Contains(s.name, "Status")
	for i := range t.NumField() {
		f := t.Field(i)
		if ofSystem(f.Type) {
			continue
		}
		m := member{i, roles[f.Name], f.Anonymous}
		if ofStatus && (strings.EqualFold(f.Name, "got") || strings.EqualFold(f.Name, "actual")) {
			m.role = roleStatus // of an UnexpectedStatusCodeError
		}
		if m.role != roleNone || m.embedded {
			s.members = append(s.members, m)
		}
	}
	return s
}

// ofSystem reports whether a type is one of the operating system's: the 512 in an os.ProcessState
// is the exit code 2.
func ofSystem(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	path := t.PkgPath()
	return path == "os" || path == "syscall" || strings.HasPrefix(path, "golang.org/x/sys/")
}

// embedded is how deep embedded structs are searched.
const embedded = 3

// walk calls do with the fields of a struct, and of what it embeds, that have a role.
func walk(v reflect.Value, depth int, do func(role, reflect.Value)) {
	if v = indirect(v); v.Kind() == reflect.Struct {
		shapeOf(v.Type()).walk(v, depth, do)
	}
}

// walk is walk for a struct of this shape.
func (s *shape) walk(v reflect.Value, depth int, do func(role, reflect.Value)) {
	defer silence()
	for _, m := range s.members {
		f := v.Field(m.index)
		if m.role != roleNone {
			do(m.role, f)
		}
		if m.embedded && depth < embedded {
			walk(f, depth+1, do)
		}
	}
}

// result calls a method that takes nothing and returns one value.
func result(method reflect.Value) (v reflect.Value, ok bool) {
	defer silence()
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return v, false
	}
	return method.Call(nil)[0], true
}

// number returns the value of an integer, or 0.
func number(v reflect.Value) int64 {
	switch {
	case v.IsValid() && v.CanInt():
		return v.Int()
	case v.IsValid() && v.CanUint():
		return int64(v.Uint())
	default:
		return 0
	}
}

// valid returns an HTTP status, or 0 for another number.
func valid(status int64) int {
	if status < lowestStatus || status > highestStatus {
		return 0
	}
	return int(status)
}
