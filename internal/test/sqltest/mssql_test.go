package sqltest_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// TestSQLServerErrors uses the error types of the driver, without a server.
func TestSQLServerErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want retry.Verdict
	}{
		{mssql.Error{Number: 1205}, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "mssql_1205"}},
		{mssql.Error{Number: 40613}, retry.Verdict{Class: retry.Retryable, Category: "mssql_40613"}},
		{mssql.Error{Number: 2627}, retry.Verdict{Class: retry.Final, Category: "mssql_2627"}},
		{mssql.ServerError{}, retry.Verdict{}},
		{mssql.StreamError{InnerError: io.EOF}, retry.Verdict{}},
		{mssql.RetryableError{}, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "sql_bad_conn"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%T", tt.err), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retrysql.Classify(tt.err))
			assert.Equal(t, tt.want, retrysql.Classify(errors.Join(errors.New("x"), fmt.Errorf("y: %w", tt.err))))
		})
	}
}
