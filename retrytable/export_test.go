package retrytable

// Pattern is what failures that look alike have in common.
var Pattern = pattern
