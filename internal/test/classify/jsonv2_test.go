//go:build go1.27 && goexperiment.jsonv2

package classify_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The errors of encoding/json/v2 mean what those of encoding/json mean. A text that ends too
// early is one that broke off, as with a json.Decoder.
func TestClassifyJSONv2(t *testing.T) {
	t.Parallel()
	invalid := retry.Verdict{Class: retry.Final, Category: "invalid"}
	cut := retry.Verdict{Class: retry.Retryable, Category: "eof"}
	var v struct{ A int }
	for name, test := range map[string]struct {
		err  error
		want retry.Verdict
	}{
		"syntax":       {json.Unmarshal([]byte(`{"A":x}`), &v), invalid},
		"type":         {json.Unmarshal([]byte(`{"A":"x"}`), &v), invalid},
		"marshal":      {json.MarshalWrite(io.Discard, func() {}), invalid},
		"token":        {jsontext.NewEncoder(io.Discard).WriteToken(jsontext.EndObject), invalid},
		"cut":          {json.Unmarshal([]byte(`{"A":`), &v), cut},
		"cut, read":    {json.UnmarshalRead(strings.NewReader(`{"A":1`), &v), cut},
		"failed reads": {json.UnmarshalRead(iotest.ErrReader(retry.MarkRetryable(errors.New("x"))), &v), retry.Verdict{Class: retry.Retryable, NotApplied: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, test.err)
			assert.Equal(t, test.want, retry.Classify(test.err), "%T %v", test.err, test.err)
		})
	}
}
