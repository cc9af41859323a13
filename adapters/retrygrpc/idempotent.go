package retrygrpc

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Methods returns an Idempotent function for a list of methods. An element is the full
// name of a method, "/package.Service/Method", or "/package.Service/*" for all methods of
// a service:
//
//	retrygrpc.Interceptor{Idempotent: retrygrpc.Methods("/jobs.Jobs/Get", "/jobs.Search/*")}
//
// The slash in front may be left out. Methods panics if a name has another form, because it
// would match nothing.
func Methods(names ...string) func(method string) bool {
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		if service == "" || method == "" || strings.Contains(method, "/") {
			panic(fmt.Sprintf("retrygrpc: Methods: %q: must be \"/package.Service/Method\" or \"/package.Service/*\"", name))
		}
		listed["/"+service+"/"+method] = true
	}
	return func(method string) bool {
		if listed[method] {
			return true
		}
		service, _, ok := cutLast(method)
		return ok && listed[service+"/*"]
	}
}

// idempotent reports whether a method may be repeated.
func (i *Interceptor) idempotent(method string) bool {
	return i.Idempotent != nil && i.Idempotent(method) || defined(method)
}

// defined reports whether the proto definition of a method says that it is idempotent. A
// definition that is not in this program says nothing.
func defined(method string) bool {
	service, name, ok := cutLast(strings.TrimPrefix(method, "/"))
	if !ok {
		return false
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return false
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return false
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

func cutLast(method string) (service, name string, ok bool) {
	slash := strings.LastIndexByte(method, '/')
	if slash < 0 {
		return "", "", false
	}
	return method[:slash], method[slash+1:], true
}
