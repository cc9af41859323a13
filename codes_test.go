package retry_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// TestHTTPStatuses goes through all of them: what is not listed is Final.
func TestHTTPStatuses(t *testing.T) {
	t.Parallel()
	var (
		anyMethod  = []int{408, 421, 425}
		idempotent = []int{500, 502, 503, 504, 520, 521, 522, 523, 524, 530, 598, 599}

		// With a hint, more is worth another attempt, and 503 is an invitation.
		hintedAny        = []int{408, 421, 425, 503}
		hintedIdempotent = []int{413, 423, 500, 502, 504, 520, 521, 522, 523, 524, 530, 598, 599}
	)
	for status := 100; status <= 599; status++ {
		category := "http_" + strconv.Itoa(status)

		want := wantFinal(category)
		switch {
		case slices.Contains(anyMethod, status):
			want = canRetry(category)
		case slices.Contains(idempotent, status):
			want = mayRetry(category)
		case status == 429:
			want = canLimit(category)
		case status == 529:
			want = mayLimit(category)
		}
		assertVerdict(t, want, retry.Classify(saysStatusCodeError(says(status))), "%d", status)

		want = wantFinal(category)
		switch {
		case slices.Contains(hintedAny, status):
			want = hinted(canRetry(category))
		case slices.Contains(hintedIdempotent, status):
			want = hinted(mayRetry(category))
		case status == 403, status == 429:
			want = hinted(canLimit(category))
		case status == 529:
			want = hinted(mayLimit(category))
		}
		withHint := statusHintError{says(status), says(aWhile)}
		assertVerdict(t, want, retry.Classify(withHint), "%d with hint", status)
	}
}

func TestSQLStates(t *testing.T) {
	t.Parallel()
	tests := map[retry.Class]map[bool][]string{
		retry.Retryable: {
			true: {
				"40001", "CR000", "40P01", // rolled back
				"55P03", "55006", // locked, in use
				"57P03", "08001", "08004", // no connection was made
				"53000", "53200", "53400",
				"25006", "25P03", "26000",
			},
			false: {
				"40003", "08007", // nobody knows whether it was committed
				"57P01", "57P02", "57P05", "08000", "08003", "08006",
			},
		},
		retry.RateLimited: {true: {"53300"}},
		retry.Final: {false: {
			"40000", "40002", "57014", "53100", "08P01", "25P02", "3D000", "XX000",
			"22000", "22P02", "23505", "23P01", "23502", "28000", "28P01", "42601", "42P01", "42501",
		}},
		retry.Unknown: {false: {
			"58000", "58030", // the disk of the server: who knows
			"00000", "01000", "P0001", "99999", "zzzzz",
			"", "4", "4000", "400011", "40001 ", "40p01",
		}},
	}
	for class, byApplied := range tests {
		for notApplied, states := range byApplied {
			for _, state := range states {
				var want retry.Verdict
				if class != retry.Unknown {
					want = retry.Verdict{Class: class, NotApplied: notApplied, Category: "sql_" + state}
				}
				assertClassified(t, want, saysSQLStateError(says(state)))
			}
		}
	}
}

func TestSQLServerNumbers(t *testing.T) {
	t.Parallel()
	limits := []int32{
		10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 40903, 49918, 49919, 49920,
	}
	transient := []int32{
		1205, 1222, 1204, 3960, 3966, 41302, 41305, 41325, 41301, 41839, // conflicts
		40197, 40143, 40540, 40613, 49802, 615, 921, 952, 988, // reconfiguring
		4060, 4221, 18401, 17197, 17889, // login
		10053, 10054, 10060, 11001, 233, 121, 64, 997, // transport
		8645, 8651, 8628, 601, 669, 617, 539, 42108, 42109, 10922,
	}
	rolledBack := []int32{1205, 3960, 3966, 41302, 41305, 41325, 41301, 41839}
	sent := []int32{10053, 10054, 10060, 233, 121, 64, 997}

	for _, number := range limits {
		got := retry.Classify(saysSQLNumberError(says(number)))
		assert.Equal(t, retry.RateLimited, got.Class, number)
		assert.Equal(t, "mssql_"+strconv.Itoa(int(number)), got.Category)
		var after time.Duration
		if number == 40501 {
			after = 10 * time.Second // its text says so
		}
		assert.Equal(t, after, got.After, number)
	}
	for _, number := range transient {
		got := retry.Classify(saysSQLNumberError(says(number)))
		assert.Equal(t, retry.Retryable, got.Class, number)
		assert.Equal(t, "mssql_"+strconv.Itoa(int(number)), got.Category)
		assert.Zero(t, got.After, number)
		if slices.Contains(rolledBack, number) {
			assert.True(t, got.NotApplied, number)
		}
		if slices.Contains(sent, number) {
			assert.False(t, got.NotApplied, number)
		}
	}
	others := []int32{
		-2,                  // a timeout of the client: the operation may have completed
		20, 926, 2627, 2601, // no encryption, suspect database, duplicate keys
		0, -1, 1, 102, 208, 547, 18456, 1<<31 - 1, -1 << 31,
	}
	for _, number := range others {
		assertClassified(t, abstains, saysSQLNumberError(says(number)))
	}
}

func TestAWSCodes(t *testing.T) {
	t.Parallel()
	tests := map[string]retry.Verdict{
		"RequestTimeout":          mayRetry("aws_RequestTimeout"),
		"RequestTimeoutException": mayRetry("aws_RequestTimeoutException"),
	}
	for _, code := range []string{
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException",
		"TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "RequestThrottled", "SlowDown", "PriorRequestNotComplete",
		"EC2ThrottledException",
	} {
		tests[code] = mayLimit("aws_" + code)
	}
	for _, code := range []string{
		"", "throttling", "Throttling ", "ThrottlingExceptionX", "NoSuchKey", "AccessDenied",
		"InvalidSignatureException", "ExpiredToken",
	} {
		tests[code] = abstains // only exact names
	}
	for _, code := range slices.Sorted(maps.Keys(tests)) {
		assertClassified(t, tests[code], saysCodeError(says(code)))
	}
}

func TestMongoLabels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		labels []string
		want   retry.Verdict
	}{
		{[]string{"RetryableWriteError"}, mayRetry("mongo_transient")},
		{[]string{"RetryableError"}, mayRetry("mongo_transient")},
		{[]string{"UnknownTransactionCommitResult"}, mayRetry("mongo_commit")},
		{[]string{"SystemOverloadedError", "RetryableError"}, mayLimit("mongo_overloaded")},
		{[]string{"RetryableWriteError", "NoWritesPerformed"}, canRetry("mongo_transient")},
		{[]string{"SystemOverloadedError", "RetryableError", "NoWritesPerformed"}, canLimit("mongo_overloaded")},
		{[]string{"SystemOverloadedError"}, abstains},
		{[]string{"NoWritesPerformed"}, abstains},
		{[]string{"NetworkError"}, abstains},
		{nil, abstains},
	}
	for _, tt := range tests {
		has := func(label string) bool { return slices.Contains(tt.labels, label) }
		assertClassified(t, tt.want, saysLabelError(has))
	}

	// The whole transaction is to be repeated.
	got := retry.Classify(saysLabelError(func(label string) bool {
		return label == "TransientTransactionError"
	}))
	assert.Equal(t, retry.Retryable, got.Class)
	assert.Equal(t, "mongo_transaction", got.Category)
}
