//go:build js && wasm

// Wasm offers the model of the playground to JavaScript, as a function from the text of a
// question to the text of the answer: see model.Ask.
package main

import (
	"syscall/js"

	"github.com/seed-5ff3c98e/retry/docs/playground/model"
)

func main() {
	js.Global().Set("retryAsk", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return string(model.Ask([]byte(args[0].String())))
	}))
	select {} // the function lives as long as the page
}
