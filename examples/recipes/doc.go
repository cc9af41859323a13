// Package recipes has functions to copy, which docs/recipes.md explains.
package recipes
