package retrypolicies_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

const sound = `{
  "default": {
    "name": "all",
    "max_attempts": 5,
    "attempt_timeout": "2s",
    "backoff": {"exponential": {"initial": "100ms"}},
    "overrides": {"unknown": {"max_attempts": 2}, "timeout": {"max_attempts": 3}}
  },
  "policies": {
    "payments": {"non_idempotent": true},
    "search": {
      "name": "search of the shop",
      "max_retries": 1,
      "backoff": {"constant": "50ms"},
      "overrides": {"unknown": {"max_delay": "1s"}}
    }
  }
}`

func load(t *testing.T, text string) *retrypolicies.Policies {
	t.Helper()
	ps := &retrypolicies.Policies{}
	require.NoError(t, ps.Load("policies.json", []byte(text)))
	return ps
}

func get(t *testing.T, ps *retrypolicies.Policies, name string) *retry.Policy {
	t.Helper()
	return testkit.Must(ps.Get(name))(t)
}

func TestInheritance(t *testing.T) {
	t.Parallel()
	ps := load(t, sound)
	assert.Equal(t, []string{"default", "payments", "search"}, ps.Names())
	exponential := retry.Exponential{Initial: 100 * time.Millisecond}
	overrides := map[string]retry.Override{"unknown": {MaxAttempts: 2}, "timeout": {MaxAttempts: 3}}
	assert.Equal(t, &retry.Policy{
		Name: "all", MaxAttempts: 5, AttemptTimeout: 2 * time.Second, Backoff: exponential, Overrides: overrides,
	}, get(t, ps, retrypolicies.Default))
	assert.Equal(t, &retry.Policy{
		Name: "payments", MaxAttempts: 5, AttemptTimeout: 2 * time.Second, Backoff: exponential, Overrides: overrides,
		NonIdempotent: true,
	}, get(t, ps, "payments"))
	assert.Equal(t, &retry.Policy{
		Name: "search of the shop", MaxAttempts: 2, AttemptTimeout: 2 * time.Second,
		Backoff:   retry.Constant(50 * time.Millisecond),
		Overrides: map[string]retry.Override{"unknown": {MaxDelay: time.Second}, "timeout": {MaxAttempts: 3}},
	}, get(t, ps, "search"))
}

func TestMaxAttemptsTakesThePlaceOfMaxRetries(t *testing.T) {
	t.Parallel()
	ps := load(t, `{"default": {"max_retries": 9}, "policies": {"a": {"max_attempts": 2}, "b": {}}}`)
	assert.Equal(t, 2, get(t, ps, "a").MaxAttempts)
	assert.Equal(t, 10, get(t, ps, "b").MaxAttempts)
}

func TestWithoutDefault(t *testing.T) {
	t.Parallel()
	ps := load(t, `{"policies": {"a": {"max_attempts": 2}}}`)
	assert.Equal(t, &retry.Policy{Name: "a", MaxAttempts: 2}, get(t, ps, "a"))
	assert.Equal(t, &retry.Policy{Name: "default"}, get(t, ps, retrypolicies.Default))
	assert.Equal(t, []string{"default"}, load(t, `{}`).Names())
}

func TestGetUnknown(t *testing.T) {
	t.Parallel()
	var ps retrypolicies.Policies
	p, err := ps.Get("payments")
	assert.Nil(t, p)
	require.ErrorIs(t, err, retrypolicies.ErrUnknown)
	require.EqualError(t, err, `retrypolicies: unknown policy "payments": no file was loaded`)
	assert.Empty(t, ps.Names())

	require.NoError(t, ps.Load("policies.json", []byte(sound)))
	p, err = ps.Get("payment")
	assert.Nil(t, p)
	require.ErrorIs(t, err, retrypolicies.ErrUnknown)
	assert.EqualError(t, err, `retrypolicies: unknown policy "payment": must be one of "default", "payments", "search"`)
}

// TestPartsSurviveReload: what is attached to a name is the very same after a reload.
func TestPartsSurviveReload(t *testing.T) {
	t.Parallel()
	shared, own := &retry.Budget{}, &retry.Budget{Ratio: 0.5}
	var told []string
	observer := &retry.Observer{Event: func(_ context.Context, e retry.Event) { told = append(told, e.Policy) }}
	classifier := retry.On(retry.Final, fs.ErrNotExist)
	ps := &retrypolicies.Policies{Parts: map[string]retrypolicies.Parts{
		retrypolicies.Default: {Budget: shared, Observer: observer},
		"payments":            {Budget: own, Classifier: classifier},
	}}
	for _, text := range []string{sound, `{"policies": {"payments": {"max_attempts": 7}, "search": {}}}`} {
		require.NoError(t, ps.Load("policies.json", []byte(text)))
		assert.Same(t, own, get(t, ps, "payments").Budget)
		assert.Same(t, shared, get(t, ps, "search").Budget)
		assert.Equal(t, retry.Final, get(t, ps, "payments").Classify(fs.ErrNotExist).Class)
		for _, name := range []string{"payments", "search"} {
			require.NoError(t, get(t, ps, name).Execute(t.Context(), func(context.Context) error { return nil }))
		}
	}
	assert.Equal(t, []string{"payments", "search of the shop", "payments", "search"}, told)
	assert.Equal(t, 7, get(t, ps, "payments").MaxAttempts)
}

// TestAllParts: what a file cannot have is a part, and reaches the policy. A Backoff and a Jitter
// have a form.
func TestAllParts(t *testing.T) {
	t.Parallel()
	parts := retrypolicies.Parts{
		Classifier: retry.Classify, Budget: &retry.Budget{}, Quota: &retryquota.Quota{}, Observer: retry.Observers(),
		Clock: &retrytest.Clock{}, Rand: rand.New(rand.NewPCG(1, 2)),
	}
	ps := &retrypolicies.Policies{Parts: map[string]retrypolicies.Parts{"a": parts}}
	require.NoError(t, ps.Load("", []byte(`{"policies": {"a": {}}}`)))
	given, attached := reflect.ValueOf(parts), reflect.ValueOf(*get(t, ps, "a"))
	others := reflect.ValueOf(*get(t, ps, retrypolicies.Default))
	for i := range attached.NumField() {
		f, v := attached.Type().Field(i), attached.Field(i)
		if f.Name == "Backoff" || f.Name == "Jitter" || v.Kind() != reflect.Interface && v.Kind() != reflect.Func {
			continue
		}
		part := given.FieldByName(f.Name)
		require.True(t, part.IsValid() && !part.IsNil(), f.Name)
		assert.False(t, v.IsNil(), f.Name)
		if v.Kind() == reflect.Interface {
			assert.Equal(t, part.Elem(), v.Elem(), f.Name)
		}
		assert.True(t, others.FieldByName(f.Name).IsNil(), f.Name)
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "policies.json")
	var ps retrypolicies.Policies
	require.ErrorIs(t, ps.LoadFile(name), os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, []byte(sound), 0o600))
	require.NoError(t, ps.LoadFile(name))
	require.NoError(t, os.WriteFile(name, []byte("{\n]"), 0o600))
	require.EqualError(t, ps.LoadFile(name),
		"retrypolicies: "+name+":2:1: invalid character ']' looking for beginning of object key string")
	assert.Len(t, ps.Names(), 3, "the old ones stay")
}

// TestReloadUnderLoad exchanges two files whose policies belong together while many
// look them up: nobody sees a policy that is in neither file.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	files := [2]string{}
	for i := range files {
		n := i + 2
		files[i] = fmt.Sprintf(`{"default": {"max_attempts": %d}, "policies": {"a": {"max_elapsed": "%ds"}}}`, n, n)
	}
	ps := load(t, files[0])
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, err := ps.Get("a")
				if !assert.NoError(t, err) || !assert.Equal(t, time.Duration(p.MaxAttempts)*time.Second, p.MaxElapsed) {
					return
				}
				_, _ = p.Validate(), p.String()
			}
		})
	}
	for i := range 500 {
		require.NoError(t, ps.Load("policies.json", []byte(files[i%2])))
		var invalid *retrypolicies.InvalidError
		require.ErrorAs(t, ps.Load("policies.json", []byte(`{"policies": {"a": {"max_attempts": -1}}}`)), &invalid)
	}
	close(stop)
	group.Wait()
}

// TestCallsKeepTheirPolicy: a reload changes nothing for a call in progress.
func TestCallsKeepTheirPolicy(t *testing.T) {
	t.Parallel()
	ps := load(t, `{"default": {"max_attempts": 3, "backoff": {"constant": 0}}}`)
	calls := 0
	err := get(t, ps, "default").Execute(t.Context(), func(context.Context) error {
		calls++
		require.NoError(t, ps.Load("", []byte(`{"default": {"max_attempts": 1}}`)))
		return errors.New("busy")
	})
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Equal(t, 3, calls)
	assert.Equal(t, 1, get(t, ps, "default").MaxAttempts)
}
