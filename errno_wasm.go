//go:build js || wasip1

package retry

var moreErrnos []errnoGroup
