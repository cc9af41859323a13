package recipes

import (
	"context"
	"net/smtp"

	"github.com/seed-5ff3c98e/retry"
)

// Mail sends a message. A reply from 400 to 499, such as greylisting, is tried again; one from 500 on is Final.
// A mail server wants waits of minutes: retry.Exponential{Initial: 5 * time.Minute}.
func Mail(ctx context.Context, policy *retry.Policy, addr string, auth smtp.Auth, from string, to []string, message []byte) error {
	return policy.Execute(ctx, func(context.Context) error {
		return smtp.SendMail(addr, auth, from, to, message)
	})
}
