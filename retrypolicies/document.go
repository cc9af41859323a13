package retrypolicies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is a value of a document, and where it stands: at its key, if it has one.
type node struct {
	value        any              // of a scalar
	members      map[string]*node // of an object; nil if it is none
	items        []*node          // of a list; nil if it is none
	line, column int              // from 1 on; 0 if unknown
}

// plain returns the value as JSON libraries return it.
func (n *node) plain() any {
	switch {
	case n.members != nil:
		o := make(map[string]any, len(n.members))
		for key, member := range n.members {
			o[key] = member.plain()
		}
		return o
	case n.items != nil:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	default:
		return n.value
	}
}

// keys returns the keys of an object in their order.
func (n *node) keys() []string { return slices.Sorted(maps.Keys(n.members)) }

// nodeOf returns what a YAML library has decoded as a node, without positions.
func nodeOf(v any) *node {
	switch v := v.(type) {
	case map[string]any:
		n := &node{members: make(map[string]*node, len(v))}
		for key, v := range v {
			n.members[key] = nodeOf(v)
		}
		return n
	case map[any]any: // yaml.v2, and keys that are no strings
		n := &node{members: make(map[string]*node, len(v))}
		for key, v := range v {
			n.members[fmt.Sprint(key)] = nodeOf(v)
		}
		return n
	case []any:
		n := &node{items: make([]*node, len(v))}
		for i, v := range v {
			n.items[i] = nodeOf(v)
		}
		return n
	default:
		return &node{value: v}
	}
}

// document decodes JSON.
type document struct {
	data    []byte
	decoder *json.Decoder
	faults  *faults

	// How far the lines are counted.
	counted, line, lineStart int
}

// mostDepth is far beyond any policy.
const mostDepth = 20

// decodeJSON returns the root of a document, or nil if it is no JSON. It notes
// repeated keys.
func decodeJSON(data []byte, fs *faults) *node {
	d := document{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), faults: fs, line: 1}
	d.decoder.UseNumber()
	// Whole before it is taken apart.
	err := json.Unmarshal(data, new(json.RawMessage))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		// The offset is behind the character that is wrong, or at the end.
		at := &node{}
		at.line, at.column = d.position(max(int(syntax.Offset)-1, 0))
		fs.add(at, nil, err.Error())
		return nil
	}
	root, err := d.value(nil)
	if err != nil {
		fs.add(nil, nil, err.Error())
		return nil
	}
	return root
}

// value decodes the next value.
func (d *document) value(path []string) (*node, error) {
	n := &node{}
	n.line, n.column = d.position(d.next())
	if len(path) > mostDepth {
		d.faults.add(n, path, fmt.Sprintf("%s: must not be deeper than %d levels", strings.Join(path, "."), mostDepth))
		return n, d.decoder.Decode(new(json.RawMessage))
	}
	token, err := d.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		n.members = map[string]*node{}
		return n, d.object(n, path)
	case json.Delim('['):
		n.items = []*node{}
		for d.decoder.More() {
			item, err := d.value(with(path, strconv.Itoa(len(n.items))))
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, err = d.decoder.Token()
		return n, err
	default:
		n.value = token
		return n, nil
	}
}

// object decodes the members of an object and its end.
func (d *document) object(n *node, path []string) error {
	for d.decoder.More() {
		line, column := d.position(d.next())
		token, err := d.decoder.Token()
		if err != nil {
			return err
		}
		key := token.(string) // or it were no JSON
		at := with(path, key)
		member, err := d.value(at)
		if err != nil {
			return err
		}
		member.line, member.column = line, column
		if _, twice := n.members[key]; twice {
			d.faults.add(member, at, strings.Join(at, ".")+": repeated key")
		}
		n.members[key] = member
	}
	_, err := d.decoder.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// next returns the offset of the next token.
func (d *document) next() int {
	offset := int(d.decoder.InputOffset())
	for offset < len(d.data) && strings.IndexByte(" \t\r\n,:", d.data[offset]) >= 0 {
		offset++
	}
	return offset
}

// position returns the line and the column of an offset that is not before those it
// was asked for already.
func (d *document) position(offset int) (line, column int) {
	offset = min(offset, len(d.data))
	for ; d.counted < offset; d.counted++ {
		if d.data[d.counted] == '\n' {
			d.line++
			d.lineStart = d.counted + 1
		}
	}
	return d.line, 1 + utf8.RuneCount(d.data[d.lineStart:offset])
}
