package service

// Recovery is recovery, for its test.
var Recovery = recovery
