package behaviour_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// httpHints are about Retry-After.
var httpHints = []promise[*httpContestant]{
	{
		"Retry-After in seconds is a lower bound",
		"503 with `Retry-After: 5`, then 200. The backoff would wait for 1s.",
		inBubble(func(t tester, c *httpContestant) cell {
			return hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", "5"}}, reply{status: 200}))
		}),
	},
	{
		"Retry-After as a date is a lower bound",
		"The same with a date, 5s from now, in the form of RFC 9110.",
		inBubble(func(t tester, c *httpContestant) cell {
			at := time.Now().Add(5 * time.Second).UTC().Format(http.TimeFormat)
			return hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", at}}, reply{status: 200}))
		}),
	},
	{
		"Retry-After in the two older forms of a date is a lower bound",
		"Those of RFC 850 and of asctime, which RFC 9110 wants to be understood.",
		inBubble(func(t tester, c *httpContestant) cell {
			at := time.Now().Add(5 * time.Second).UTC()
			for _, form := range []string{"Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
				got := hinted(c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", at.Format(form)}}, reply{status: 200}))
				if got.mark != kept {
					return got
				}
				at = at.Add(6 * time.Second)
			}
			return cell{kept, "waited for 5s or up to 10 % more"}
		}),
	},
	{
		"A date is read by the server's clock",
		"`Date` and `Retry-After` of a server whose clock is an hour ahead: 5s.",
		inBubble(func(t tester, c *httpContestant) cell {
			now := time.Now().Add(time.Hour).UTC()
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""),
				reply{status: 503, headers: []string{"Date", now.Format(http.TimeFormat), "Retry-After", now.Add(5 * time.Second).Format(http.TimeFormat)}}, reply{status: 200})
			ok := e.elapsed >= 5*time.Second && e.elapsed <= 6*time.Second
			return keptIf(ok, "%s", choose(ok, "waited for 5s or up to 10 % more", "waited for "+short(e.elapsed)))
		}),
	},
	{
		"An absurd Retry-After is neither a spin nor a wait for ever",
		"429 with each of these, forever: " + "`" + strings.Join(absurd, "`, `") + "`. Four attempts; given up on after a day.",
		func(t tester, c *httpContestant) cell {
			var bad []string
			for _, value := range absurd {
				if what := bubble(t, func(t tester) string { return absurdity(t, c, value) }); what != "" {
					bad = append(bad, "`"+value+"`: "+what)
				}
			}
			if len(bad) == 0 {
				return cell{kept, "ended at once, or waited as without it"}
			}
			return cell{broken, strings.Join(bad, "; ")}
		},
	},
	{
		"A Retry-After longer than the longest wait is not slept",
		"`Retry-After: 3600`; the longest wait is set to 30s.",
		inBubble(func(t tester, c *httpContestant) cell {
			e := c.send(usual, newRequest(t, t.Context(), "GET", ""), reply{status: 503, headers: []string{"Retry-After", "3600"}}, reply{status: 200})
			return keptIf(e.elapsed < time.Hour, "%s", choose(e.elapsed == 0, "returned at once, with the response", "slept for "+short(e.elapsed)))
		}),
	},
	{
		"A Retry-After beyond the deadline: returns at once",
		"`Retry-After: 20` and a deadline 10s away.",
		inBubble(func(t tester, c *httpContestant) cell {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			e := c.send(usual, newRequest(t, ctx, "GET", ""), reply{status: 503, headers: []string{"Retry-After", "20"}})
			return keptIf(e.elapsed == 0, "%s", choose(e.elapsed == 0, "returned at once", "slept for "+short(e.elapsed)+", until the deadline"))
		}),
	},
}

// absurd are values of Retry-After that mean nothing, or nothing sensible.
var absurd = []string{"9223372037", "99999999999999999999", "1e300", "-1", "Fri, 31 Dec 9999 23:59:59 GMT"}

// absurdity tells what is wrong with the answer to a Retry-After.
func absurdity(t tester, c *httpContestant, value string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	e := c.send(usual, newRequest(t, ctx, "GET", ""), reply{status: 429, headers: []string{"Retry-After", value}})
	switch waits := e.waits(); {
	case len(waits) > 0 && slices.Max(waits) == 0:
		return count(e.requests, "request") + " without a wait"
	case e.elapsed >= 24*time.Hour:
		return "still waiting after a day"
	default:
		return ""
	}
}

func hinted(e *exchange) cell {
	if e.requests != 2 {
		return cell{broken, count(e.requests, "request")}
	}
	ok := e.elapsed >= 5*time.Second
	return keptIf(ok, "%s", choose(ok, "waited for 5s or up to 10 % more", "waited for "+short(e.elapsed)))
}
