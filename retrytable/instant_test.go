package retrytable_test

import (
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var (
	_ sql.Scanner   = (*retrytable.Instant)(nil)
	_ driver.Valuer = retrytable.Instant{}
)

// An instant is what it was after a round trip, to the unit of its column and never
// early.
func TestInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 2, 3, 4, 5, 6, 7_008_009, time.UTC)
	for as, want := range map[retrytable.Instants]struct {
		value driver.Value
		back  time.Time
	}{
		retrytable.Timestamptz: {at, at},
		retrytable.Datetime:    {"2031-02-03 04:05:06.007009", at.Truncate(time.Microsecond).Add(time.Microsecond)},
		retrytable.UnixMicros:  {int64(1927857906007009), at.Truncate(time.Microsecond).Add(time.Microsecond)},
		retrytable.UnixMillis:  {int64(1927857906008), at.Truncate(time.Millisecond).Add(time.Millisecond)},
		retrytable.UnixSeconds: {int64(1927857907), at.Truncate(time.Second).Add(time.Second)},
	} {
		value, err := retrytable.Instant{Time: at, As: as}.Value()
		require.NoError(t, err)
		assert.Equal(t, want.value, value)
		back := retrytable.Instant{As: as}
		require.NoError(t, back.Scan(value))
		assert.Equal(t, want.back, back.Time)

		value = testkit.Must(retrytable.Instant{As: as}.Value())(t)
		assert.Nil(t, value)
		require.NoError(t, back.Scan(nil))
		assert.True(t, back.IsZero())
	}
	exact := testkit.Must(retrytable.Instant{Time: at.Truncate(time.Second), As: retrytable.UnixSeconds}.Value())(t)
	assert.Equal(t, int64(1927857906), exact)

	// A datetime is in UTC, whatever the driver was told.
	tokyo := time.FixedZone("", 9*60*60)
	text, err := retrytable.Instant{Time: at.Truncate(time.Second).In(tokyo), As: retrytable.Datetime}.Value()
	require.NoError(t, err)
	assert.Equal(t, "2031-02-03 04:05:06", text)
	utc := time.Date(2031, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, value := range []any{
		"2031-02-03 04:05:06.000007", []byte("2031-02-03 04:05:06.000007"), time.Date(2031, 2, 3, 4, 5, 6, 7000, tokyo),
	} {
		datetime := retrytable.Instant{As: retrytable.Datetime}
		require.NoError(t, datetime.Scan(value))
		assert.Equal(t, utc, datetime.Time)
	}

	var read retrytable.Instant
	require.NoError(t, read.Scan(int64(1_000_001)))
	assert.Equal(t, time.Unix(1, 1000).UTC(), read.Time, "what SQLite has by default")
	assert.EqualError(t, read.Scan("soon"), "retrytable: Instant: \"soon\": is no instant")
	assert.EqualError(t, read.Scan(1.5), "retrytable: Instant: float64: is no instant")
	_, err = read.Value()
	assert.EqualError(t, err, "retrytable: Instant.As: 0: must be a type")
	_, err = retrytable.Instant{As: 9}.Value()
	assert.EqualError(t, err, "retrytable: Instant.As: 9: must be a type")
}

// Text is written in the form of an example, and read in each of them.
func TestTextLike(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 2, 3, 4, 5, 6, 7_008_009, time.UTC)
	for example, want := range map[string]string{
		"2024-01-05T00:00:00.000+00:00":    "2031-02-03T04:05:06.008+00:00",
		"2024-01-05T00:00:00.123456+02:00": "2031-02-03T04:05:06.008+00:00",
		"2024-01-05T00:00:00.5Z":           "2031-02-03T04:05:06.008Z",
		"2024-01-05T00:00:00Z":             "2031-02-03T04:05:07Z",
		"2024-01-05T00:00:00.123456":       "2031-02-03T04:05:06.008",
		"2024-01-05T00:00:00":              "2031-02-03T04:05:07",
		"2024-01-05 00:00:00":              "2031-02-03 04:05:07",
		"2024-01-05 00:00:00.000":          "2031-02-03 04:05:06.008",
		"2024-01-05 00:00:00+00:00":        "2031-02-03 04:05:07+00:00",
		"2460314.5":                        "2031-02-03T04:05:06.008+00:00",
		"":                                 "2031-02-03T04:05:06.008+00:00",
	} {
		as := retrytable.TextLike(example)
		value, err := retrytable.Instant{Time: at, As: as}.Value()
		require.NoError(t, err, example)
		assert.Equal(t, want, value, example)
		back := retrytable.Instant{As: as}
		require.NoError(t, back.Scan(value), example)
		assert.False(t, back.Before(at), example)
		assert.Equal(t, "TEXT", as.SQLType(retrytable.SQLite), example)
		assert.Equal(t, retrytable.Timestamptz.Now(retrytable.PostgreSQL), as.Now(retrytable.PostgreSQL), "which has no text")
	}
	table := retrytable.Table[int64]{Dialect: retrytable.PostgreSQL, Name: "jobs", Instants: retrytable.TextLike("2024-01-05 00:00:00")}
	require.EqualError(t, table.Validate(), `retrytable: Instants: "RFC3339": PostgreSQL has no such type`)
	table.Instants = 0x11
	require.Error(t, table.Validate(), "a form of what is no text")
}

// What the database says is now is what its columns have.
func TestInstantsNow(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "(statement_timestamp())", retrytable.DefaultInstants.Now(retrytable.PostgreSQL))
	assert.Equal(t, "timestamptz", retrytable.DefaultInstants.SQLType(retrytable.PostgreSQL))
	assert.Contains(t, retrytable.DefaultInstants.Now(retrytable.SQLite), "julianday('now')")
	assert.Equal(t, "INTEGER", retrytable.DefaultInstants.SQLType(retrytable.SQLite))
	assert.Equal(t, "bigint", retrytable.UnixSeconds.SQLType(retrytable.PostgreSQL))
	assert.Contains(t, retrytable.UnixSeconds.Now(retrytable.PostgreSQL), "/ 1000000")
	assert.Equal(t, "(UTC_TIMESTAMP(6))", retrytable.DefaultInstants.Now(retrytable.MySQL))
	assert.Equal(t, "datetime(6)", retrytable.DefaultInstants.SQLType(retrytable.MySQL))
	assert.Contains(t, retrytable.UnixSeconds.Now(retrytable.MySQL), "DIV 1000000")
}
