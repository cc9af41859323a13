package hint

import (
	"strings"
	"time"
)

// dateLayouts are the date forms of HTTP and RFC 3339, and of ISO 8601 with a zone. They
// also accept zones and one-digit days that servers send although the grammar does not
// allow them. No layout has a zone name to be parsed, because time.Parse takes
// unknown zones for UTC.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
var dateLayouts = []string{
	"Mon, 2 Jan 2006 15:04:05 GMT",
	"Mon, 2 Jan 2006 15:04:05 UTC",
	"Mon, 2 Jan 2006 15:04:05 -0700",
	"Monday, 2-Jan-06 15:04:05 GMT",
	"Monday, 2-Jan-06 15:04:05 UTC",
	"Monday, 2-Jan-06 15:04:05 -0700",
	time.ANSIC,
	time.RFC3339,
	"2006-01-02T15:04Z07:00",    // Atlassian
	"2006-01-02T15:04:05Z0700",  // an offset without a colon
	"2006-01-02 15:04:05Z07:00", // RFC 3339 allows the space
	"2006-01-02 15:04:05 UTC",
}

// maxDate is more than the longest date needs, also with a fraction of a second.
const maxDate = 64

// parseDate reads a date. It needs now for years of two digits.
func parseDate(value string, now time.Time) (time.Time, bool) {
	if len(value) > maxDate {
		return time.Time{}, false
	}
	var leap time.Duration
	if strings.Contains(value, ":60 ") { // time.Parse accepts no leap seconds
		value = strings.Replace(value, ":60 ", ":59 ", 1)
		leap = time.Second
	}
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, value)
		if err != nil {
			continue
		}
		if value[0] > '9' && !rightCase(value, t) {
			return time.Time{}, false
		}
		if strings.Contains(layout, "-06 ") {
			t = latestWithin50Years(t, now)
		}
		return t.Add(leap), true
	}
	return time.Time{}, false
}

// rightCase reports whether the names of the weekday and the month are in the
// case of HTTP. The weekday need not be the right one.
func rightCase(value string, t time.Time) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.HasPrefix(value, day.String()[:3]) {
			return strings.Contains(value, t.Month().String()[:3])
		}
	}
	return false
}

// latestWithin50Years sets the century of a date with a year of two digits.
func latestWithin50Years(t, now time.Time) time.Time {
	limit := now.AddDate(50, 0, 0)
	year := now.Year()/100*100 + 100 + t.Year()%100
	for {
		d := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, t.Location())
		if !d.After(limit) {
			return d
		}
		year -= 100
	}
}
