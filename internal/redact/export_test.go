package redact

// Settle is Text without the guard.
var Settle = settle
