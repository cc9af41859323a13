// Package promises is the list of what this library promises because another retry library breaks
// it. Each test is named by its promise, and is the shortest program that fails on such a library.
package promises
