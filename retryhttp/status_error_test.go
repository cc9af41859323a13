package retryhttp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retryhttp"
)

func TestStatusErrorText(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "GET : 0", (&retryhttp.StatusError{}).Error())
	assert.Equal(t, "PUT http://h/: 599", (&retryhttp.StatusError{Method: "PUT", URL: "http://h/", StatusCode: 599}).Error())
}
