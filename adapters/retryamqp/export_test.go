package retryamqp

// Rounded returns the time of the wait queue for a delay, in milliseconds.
var Rounded = rounded
