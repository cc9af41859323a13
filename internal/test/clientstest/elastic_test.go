package clientstest_test

import (
	"strings"
	"testing"

	"github.com/elastic/go-elasticsearch/v9/esutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A search is a POST, and a header says that it may be repeated.
func TestElasticsearchSearch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header map[string]string
		steps  []step
		status int
	}{
		"as it is":    {nil, []step{plainFailed(503)}, 503},
		"with a key":  {map[string]string{"Idempotency-Key": "search"}, []step{plainFailed(503), foundNothing}, 200},
		"rate limits": {nil, []step{plainFailed(429), foundNothing}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.steps...)
			client := must(newElasticsearch("https://example.com", newWorld(t, s).http))
			resp, err := client.Search(
				client.Search.WithContext(t.Context()), client.Search.WithIndex("index"),
				client.Search.WithBody(strings.NewReader(`{"size": 1}`)), client.Search.WithHeader(tt.header),
			)
			require.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, "POST", s.got()[0].Method)
			s.assertSame(t)
		})
	}
}

// The body of such a reader has a Seek, inside the NopCloser of net/http.
func TestElasticsearchJSONReader(t *testing.T) {
	t.Parallel()
	s := serve(t, plainFailed(429), answer(201, "application/json", `{}`, "X-Elastic-Product", "Elasticsearch"))
	client := must(newElasticsearch("https://example.com", newWorld(t, s).http))
	body := esutil.NewJSONReader(map[string]string{"text": "hello"})
	_, err := elasticAnswer(client.Index("index", body, client.Index.WithContext(t.Context())))
	assert.NoError(t, err)
	s.assertSame(t)
}

var foundNothing = answer(200, "application/json", `{"hits": {"hits": []}}`, "X-Elastic-Product", "Elasticsearch")
