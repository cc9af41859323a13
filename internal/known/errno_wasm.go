//go:build js || wasip1

package known

var moreErrnos []errnoGroup
