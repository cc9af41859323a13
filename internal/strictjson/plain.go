package strictjson

import (
	"fmt"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Plain returns what a YAML library has decoded in the types that [Decode] returns, and
// with its limits. It changes v.
//
// An alias may stand for a part of the document many times, and a few hundred bytes for more
// values than a memory holds. Libraries that share that part have decoded little, but all
// that walks over it walks over every value. So Plain counts what a walk meets, before there
// is one.
func Plain(v any) (any, error) {
	p := plainer{}
	v = p.value(v, 0)
	return v, p.err
}

type plainer struct {
	values int
	err    error
}

func (p *plainer) value(v any, depth int) any {
	switch p.values++; {
	case p.err != nil:
		return v
	case p.values > mostValues:
		p.err = fmt.Errorf("must not have more than %d values, those behind aliases included", mostValues)
		return v
	case depth > deepest:
		p.err = fmt.Errorf("must not be deeper than %d levels", deepest)
		return v
	}
	switch v := v.(type) {
	case Object:
		for key, member := range v {
			v[key] = p.value(member, depth+1)
		}
	case map[any]any: // yaml.v2, and keys that are not strings
		o := make(Object, len(v))
		for key, member := range v {
			name, ok := key.(string)
			if !ok {
				name = show.Text(fmt.Sprint(key))
			}
			o[name] = p.value(member, depth+1)
		}
		return o
	case []any:
		for i, item := range v {
			v[i] = p.value(item, depth+1)
		}
	}
	return v
}
