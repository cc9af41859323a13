package retrystreams

// Slot is slot.
var Slot = slot
