package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// policyFile is a file with a policy, or with policies by name.
type policyFile struct {
	policies retrypolicies.Policies
	named    bool // false: there is one policy, which is the default of policies
	where    func(path []string) (line, column int)
}

// standardInput is the name of the file that is read from there.
const standardInput = "-"

// readPolicies reads a file. If it is not valid, the error is an
// [*retrypolicies.InvalidError] with all that is wrong with it.
func readPolicies(name string) (*policyFile, error) {
	f := &policyFile{}
	if name == standardInput {
		data, err := io.ReadAll(os.Stdin)
		switch shown := shownName(name); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", shown, err)
		case json.Valid(data):
			return f, f.json(shown, data)
		default:
			return f, f.yaml(shown, data)
		}
	}
	data, err := os.ReadFile(name)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return nil, fmt.Errorf("%s %s: %w", path.Op, shown(path.Path), path.Err)
	case err != nil:
		return nil, err
	}
	if filepath.Ext(name) == ".json" {
		return f, f.json(shownName(name), data)
	}
	return f, f.yaml(shownName(name), data)
}

// shownName returns the name of a file for texts.
func shownName(name string) string {
	if name == standardInput {
		return "stdin"
	}
	return shown(name)
}

// shown returns a text that may be a stranger's, quoted if it has what cannot be printed or
// would be a command to a CI at the beginning of a line, and cut off if it is long.
func shown(text string) string {
	const most = 200
	plain := strings.TrimLeft(text, ":# ") == text
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	unprintable := func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }
	if !plain || strings.IndexFunc(text, unprintable) >= 0 {
		return strconv.Quote(text)
	}
	return text
}

// shownNames returns the names of policies for texts, or the first of them.
func shownNames(names []string) string {
	const most = 20
	list := make([]string, 0, most+1)
	for _, name := range names[:min(len(names), most)] {
		list = append(list, shown(name))
	}
	if more := len(names) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// policyFromFile returns the policy of a file, or the one with a name.
func policyFromFile(file, name string) (*retry.Policy, error) {
	f, err := readPolicies(file)
	file = shownName(file)
	switch {
	case err != nil:
		return nil, err
	case f.named && name == "":
		return nil, fmt.Errorf("%s: has policies by name: say which with --policy-name: %s",
			file, shownNames(f.policies.Names()))
	case !f.named && name != "":
		return nil, fmt.Errorf("--policy-name %s: %s has one policy, and no names", shown(name), file)
	case !f.named:
		name = retrypolicies.Default
	}
	p, err := f.policies.Get(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !f.named && p.Name == retrypolicies.Default {
		unnamed := *p // the name is the place that readPolicies has put it in
		unnamed.Name, p = "", &unnamed
	}
	return p, nil
}

// lonePrefix makes of a single policy the default of a file with nothing else.
const lonePrefix = `{"default":`

// json reads a JSON file.
func (f *policyFile) json(name string, data []byte) error {
	var document yaml.Node
	_ = yaml.Unmarshal(data, &document) // it is YAML too; only for where warnings stand
	f.where = positions(&document)
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil && !json.Valid(data) {
		err := f.policies.Load(name, data) // which says where
		if invalid := (*retrypolicies.InvalidError)(nil); errors.As(err, &invalid) && isYAML(&document) {
			problem, _, _ := strings.Cut(invalid.Faults[0].Problem, "; ") // which is advice to a program
			invalid.Faults[0].Problem = problem + "; the file is YAML: call it .yaml"
		}
		return err
	}
	if f.named = isNamed(keys); f.named {
		return f.policies.Load(name, data)
	}
	wrapped := slices.Concat([]byte(lonePrefix), data, []byte("}"))
	err := f.policies.Load(name, wrapped)
	var invalid *retrypolicies.InvalidError
	if errors.As(err, &invalid) {
		for i := range invalid.Faults {
			fault := &invalid.Faults[i]
			unwrapDefault(fault)
			if fault.Line == 1 {
				fault.Column = max(fault.Column-len(lonePrefix), 1)
			}
		}
	}
	return err
}

// isYAML reports whether a file that is no JSON is YAML with keys, and without braces.
func isYAML(document *yaml.Node) bool {
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return false
	}
	root := document.Content[0]
	return root.Kind == yaml.MappingNode && root.Style&yaml.FlowStyle == 0
}

// isNamed tells a file with policies by name from one with a single policy, which has
// other keys.
func isNamed[V any](keys map[string]V) bool {
	_, hasDefault := keys[retrypolicies.Default]
	_, hasPolicies := keys["policies"]
	return hasDefault || hasPolicies
}

// unwrapDefault makes a fault one of a file with a single policy.
func unwrapDefault(fault *retrypolicies.Fault) {
	if len(fault.Path) > 0 && fault.Path[0] == retrypolicies.Default {
		fault.Path = fault.Path[1:]
	}
	fault.Problem = strings.TrimPrefix(fault.Problem, retrypolicies.Default+".")
	if rest, ok := strings.CutPrefix(fault.Problem, retrypolicies.Default+": "); ok {
		fault.Problem = "policy: " + rest
	}
}

// yaml reads a YAML file.
func (f *policyFile) yaml(name string, data []byte) error {
	document := yaml.Node{}
	if err := yaml.Unmarshal(data, &document); err != nil {
		return syntaxFault(name, err)
	}
	var content any
	if err := document.Decode(&content); err != nil { // repeated keys and the like
		return syntaxFault(name, err)
	}
	f.where = positions(&document)
	root, _ := content.(map[string]any)
	if f.named = isNamed(root); !f.named {
		content = map[string]any{retrypolicies.Default: content}
	}
	err := f.policies.UnmarshalYAML(func(to any) error {
		*to.(*any) = content
		return nil
	})
	var invalid *retrypolicies.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	for i := range invalid.Faults {
		fault := &invalid.Faults[i]
		if !f.named {
			unwrapDefault(fault)
		}
		fault.File = name
		fault.Line, fault.Column = f.where(fault.Path)
	}
	sortFaults(invalid.Faults)
	return err
}

// sortFaults sorts faults by where they stand.
func sortFaults(faults []retrypolicies.Fault) {
	slices.SortStableFunc(faults, func(a, b retrypolicies.Fault) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
}

// positions returns a function that says where a path leads in a document: to the
// key, or as far as it goes.
func positions(document *yaml.Node) func(path []string) (line, column int) {
	keys := index{}
	return func(path []string) (line, column int) {
		n := document
		if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
			n = n.Content[0]
		}
		line, column = max(n.Line, 1), max(n.Column, 1)
		for _, key := range path {
			for n.Kind == yaml.AliasNode {
				n = n.Alias
			}
			var at *yaml.Node
			if at, n = keys.child(n, key); n == nil {
				break
			}
			line, column = at.Line, at.Column
		}
		return line, column
	}
}

// index has the places of the keys in each mapping, because a long file may have many
// keys to be found.
type index map[*yaml.Node]map[string]int

// child returns a value of a node by its key or its index, and what stands for it.
func (x index) child(n *yaml.Node, key string) (at, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		if x[n] == nil {
			x[n] = make(map[string]int, len(n.Content)/2)
			for i := len(n.Content) - 2; i >= 0; i -= 2 { // the first of a repeated key stays
				x[n][n.Content[i].Value] = i
			}
		}
		if i, ok := x[n][key]; ok {
			return n.Content[i], n.Content[i+1]
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	default: // has no children
	}
	return nil, nil
}

var yamlPlace = regexp.MustCompile(`line (\d+)(?:, column (\d+))?`)

// syntaxFault is the error of a file that is no YAML, whose library writes the place
// into the text.
func syntaxFault(name string, err error) error {
	fault := retrypolicies.Fault{File: name, Line: 1, Column: 1, Problem: strings.TrimSpace(err.Error())}
	if m := yamlPlace.FindStringSubmatch(fault.Problem); m != nil {
		fault.Line, _ = strconv.Atoi(m[1])
		fault.Column, _ = strconv.Atoi(m[2])
		fault.Column = max(fault.Column, 1)
	}
	return &retrypolicies.InvalidError{Faults: []retrypolicies.Fault{fault}}
}
