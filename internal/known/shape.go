package known

import (
	"maps"
	"reflect"
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
	roleList // of reasons
	roleSQLState
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

	"Header":          roleHeader,
	"Headers":         roleHeader,
	"ResponseHeader":  roleHeader, // gophercloud
	"ResponseHeaders": roleHeader,

	"Response":     roleResponse,
	"RawResponse":  roleResponse,
	"LastResponse": roleResponse,
	"HTTPResponse": roleResponse,
	"HttpResponse": roleResponse,

	"RetryAfter":        roleWait,
	"RetryAfterSeconds": roleSeconds,

	"Code":             roleReason,
	"Type":             roleReason,
	"ErrorCode":        roleReason,
	"Reason":           roleReason,
	"DocumentationURL": roleReason,

	"SQLState": roleSQLState, // of drivers that have no method for it

	"Err":        roleCause, // go-git
	"InnerError": roleCause, // gocb
	"Cause":      roleCause,

	"Errors":  roleList, // googleapi
	"Details": roleList, // genai
}

// member is a field that has a role, or is embedded and may have fields that have one.
type member struct {
	index    int
	role     role
	embedded bool
}

// shapes has the members of the struct types that were asked about, because every error of an
// unknown type is asked, and reading its type takes longer than reading its fields. The map is
// replaced, and never changed.
var shapes = func() *atomic.Pointer[map[reflect.Type][]member] {
	var p atomic.Pointer[map[reflect.Type][]member]
	p.Store(&map[reflect.Type][]member{})
	return &p
}()

// mostShapes is more than a program has types of errors, unless it makes them by reflection.
// Then all are read again.
const mostShapes = 500

func shapeOf(t reflect.Type) []member {
	known := shapes.Load()
	if shape, ok := (*known)[t]; ok {
		return shape
	}
	var shape []member
	for i := range t.NumField() {
		f := t.Field(i)
		if m := (member{i, roles[f.Name], f.Anonymous}); m.role != roleNone || m.embedded {
			shape = append(shape, m)
		}
	}
	more := map[reflect.Type][]member{t: shape}
	if len(*known) < mostShapes {
		maps.Copy(more, *known)
	}
	shapes.CompareAndSwap(known, &more) // or another has come first, and the next error has its turn
	return shape
}

// embedded is how deep embedded structs are searched.
const embedded = 3

// walk calls do with the fields of a struct, and of what it embeds, that have a role.
func walk(v reflect.Value, depth int, do func(role, reflect.Value)) {
	defer silence()
	if v = indirect(v); v.Kind() != reflect.Struct {
		return
	}
	for _, m := range shapeOf(v.Type()) {
		f := v.Field(m.index)
		if m.role != roleNone {
			do(m.role, f)
		}
		if m.embedded && depth < embedded {
			walk(f, depth+1, do)
		}
	}
}

// indirect returns what a pointer or an interface has, or v itself. A pointer may point to
// itself.
func indirect(v reflect.Value) reflect.Value {
	const most = 10
	for range most {
		if !v.IsValid() || v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		v = v.Elem()
	}
	return v
}
