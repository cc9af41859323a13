package model

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Ask answers what the page asks. A question is a JSON list of texts and numbers: the
// name of a function and its arguments. The answer is JSON, and has an "error" if
// something is wrong:
//
//	["plan", policy]            a Plan
//	["go", code]                the same, of a policy written in Go
//	["clients", policy, outage] a Clients
//	["compare", outage]         a list of Compared
//	["storm", policy, fault]    a Storm
//
// It is safe for concurrent use.
func Ask(question []byte) []byte {
	answer, err := ask(question)
	if err != nil {
		answer = map[string]string{"error": err.Error()}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return b
}

func ask(question []byte) (any, error) {
	var q []any
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	arguments := make([]any, 3)
	copy(arguments, q)
	name, _ := arguments[0].(string)
	text, _ := arguments[1].(string)
	switch name {
	case "plan":
		return MakePlan([]byte(text))
	case "go":
		form, err := FromGo(text)
		if err != nil {
			return nil, err
		}
		return MakePlan(form)
	case "clients":
		outage, _ := arguments[2].(float64)
		return MakeClients([]byte(text), outage)
	case "compare":
		outage, _ := arguments[1].(float64)
		return Compare(outage)
	case "storm":
		fault, _ := arguments[2].(string)
		return MakeStorm([]byte(text), fault)
	default:
		return nil, errors.New("question: nobody knows " + name)
	}
}
