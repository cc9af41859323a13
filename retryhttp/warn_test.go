package retryhttp_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The log says once per Transport that its own budget refuses retries, and nothing where the
// caller has taken over: with an Observer, with a Budget of its own, with Do.
func TestWarning(t *testing.T) { //nolint:paralleltest // slog.Default is shared
	original := slog.Default()
	t.Cleanup(func() { slog.SetDefault(original) })
	none := func(*http.Request) retry.Throttle { return &retry.Budget{Reserve: retry.NoReserve} }
	for name, test := range map[string]struct {
		transport *retryhttp.Transport
		budget    retry.Throttle
		observed  bool
		status    int
		want      int
	}{
		"the budget of the host":  {&retryhttp.Transport{}, nil, false, 503, 1},
		"no budget":               {&retryhttp.Transport{Budget: retryhttp.NoBudget}, nil, false, 503, 0},
		"a Budget of the policy":  {&retryhttp.Transport{}, none(nil), false, 503, 0},
		"a Budget of a Transport": {&retryhttp.Transport{Budget: none}, nil, false, 503, 0},
		"an Observer":             {&retryhttp.Transport{}, nil, true, 503, 0},
		"what is never retried":   {&retryhttp.Transport{}, nil, false, 404, 0},
	} {
		var log strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		base, _ := always(test.status)
		p := atOnce(3)
		p.Budget = test.budget
		if test.observed {
			p.Observer = retry.Observers() // sees nothing
		}
		test.transport.Base, test.transport.Policy = base, p
		for range 5 {
			_, err := get(t, test.transport, "http://user:secret@host/secret?secret")
			require.NoError(t, err)
		}
		require.Error(t, retryhttp.Do(&http.Client{Transport: test.transport}, nil, request(t, "GET", "http://host2/", nil), nothing))
		assert.Equal(t, test.want, strings.Count(log.String(), "\n"), "%s: %s", name, log.String())
		if test.want > 0 {
			assert.Contains(t, log.String(), "level=WARN")
			assert.Contains(t, log.String(), "docs/why.md")
			assert.Contains(t, log.String(), "host=http://host\n")
		}
		assert.NotContains(t, log.String(), "secret")
	}
}
