package retryquota

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Keys has a Quota for each key: a tenant, a host, an API key. It makes a Quota when a key is first
// used, and forgets it within a minute of its last use, unless a hold lasts or a call waits. What
// it has learned is worth no more after half a minute without a word, also if a call runs for longer.
// The zero value is ready; it must not be copied after its first use. It is safe for
// concurrent use, and starts no goroutine while nothing is to be forgotten.
//
//	quotas := &retryquota.Keys[string]{}
//	policy := &retry.Policy{Quota: quotas.Of(tenant)}
type Keys[K comparable] struct {
	// MaxHold is that of each Quota.
	MaxHold time.Duration

	mu         sync.Mutex
	young, old map[K]*keyed[K] // used since the last look, and before
	timer      *time.Timer     // of the next look; nil while there are no keys
	looks      atomic.Uint32
}

// forgetAfter is how often Keys looks for what to forget. What was not used between two looks is
// forgotten at the second.
const forgetAfter = 25 * time.Second

// Of returns the Pacer of a key. It may be kept, and stays right when the Quota behind it has been
// forgotten: all Pacers of one key share one Quota at any time.
func (k *Keys[K]) Of(key K) retry.Pacer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.young[key]; known != nil {
		return known
	}
	e := &keyed[K]{of: k, key: key}
	e.quota.MaxHold = k.MaxHold
	return k.use(e)
}

// use returns what there is for the key of e, or else e. The lock is held.
func (k *Keys[K]) use(e *keyed[K]) *keyed[K] {
	if known := k.young[e.key]; known != nil {
		return known
	}
	if known := k.old[e.key]; known != nil {
		delete(k.old, e.key)
		e = known
	}
	if k.young == nil {
		k.young = map[K]*keyed[K]{}
	}
	k.young[e.key], e.looks = e, 0
	e.used.Store(k.looks.Load() + 1)
	if k.timer == nil {
		k.timer = time.AfterFunc(forgetAfter, k.forget)
	}
	return e
}

// forget drops the keys that were not used since the last look and of which nothing is known.
func (k *Keys[K]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks.Add(1)
	kept := map[K]*keyed[K]{}
	for key, e := range k.old {
		if e.looks++; !e.quota.idle(time.Duration(e.looks) * forgetAfter) {
			kept[key] = e
		}
	}
	maps.Copy(kept, k.young)
	k.young, k.old = nil, kept
	if k.timer = nil; len(kept) > 0 {
		k.timer = time.AfterFunc(forgetAfter, k.forget)
	}
}

// Len returns how many keys are not forgotten.
func (k *Keys[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.young) + len(k.old)
}

// keyed is the Pacer of a key.
type keyed[K comparable] struct {
	of    *Keys[K]
	key   K
	looks int           // since it was used
	used  atomic.Uint32 // between which looks of the Keys that was, counted from 1
	quota Quota
}

// current returns the Quota of the key, which may be another one if this one was forgotten.
func (e *keyed[K]) current() *Quota {
	if e.used.Load() == e.of.looks.Load()+1 { // it is among the young
		return &e.quota
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	return &e.of.use(e).quota
}

// Wait implements [retry.Pacer].
func (e *keyed[K]) Wait(ctx context.Context, p *retry.Policy, w retry.Waiting) (retry.Turn, time.Duration, error) {
	return e.current().Wait(ctx, p, w)
}

// Take implements [retry.Pacer].
func (e *keyed[K]) Take(p *retry.Policy, n int) (retry.Turn, int, time.Duration) {
	return e.current().Take(p, n)
}

// Return implements [retry.Pacer].
func (e *keyed[K]) Return(p *retry.Policy, turn retry.Turn, n int) { e.current().Return(p, turn, n) }

// Tell implements [retry.Pacer].
func (e *keyed[K]) Tell(p *retry.Policy, turn retry.Turn, err error, v retry.Verdict) time.Duration {
	return e.current().Tell(p, turn, err, v)
}
