// Package retryvet has the mended code of docs/retryvet.md, so that it is compiled.
package retryvet
