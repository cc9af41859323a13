package clientstest_test

import (
	"fmt"
	"testing"
	"time"

	containerd "github.com/containerd/errdefs"
	"github.com/go-ldap/ldap/v3"
	telegram "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/google/go-github/v92/github"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/crypto/ssh"

	"github.com/seed-5ff3c98e/retry"
)

// Errors whose fields mean something only in their package.
func TestErrorsOfPackages(t *testing.T) {
	t.Parallel()
	flood := &telegram.Error{Code: 429, ResponseParameters: telegram.ResponseParameters{RetryAfter: 35}}
	for _, tt := range []struct {
		err      error
		class    retry.Class
		category string
		after    time.Duration
	}{
		{flood, retry.RateLimited, "http_429", 35 * time.Second},
		{&telegram.Error{Code: 502}, retry.Retryable, "http_502", 0},
		{&telegram.Error{Code: 403}, retry.Final, "http_403", 0}, // the user has blocked the bot
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, retry.Retryable, "http_503", 0},
		{jetstream.ErrStreamNotFound, retry.Final, "http_404", 0},
		{ldap.NewError(ldap.LDAPResultBusy, assert.AnError), retry.Retryable, "ldap_51", 0},
		{ldap.NewError(ldap.LDAPResultInvalidCredentials, assert.AnError), retry.Final, "ldap_49", 0},
		{ldap.NewError(ldap.LDAPResultOperationsError, assert.AnError), retry.Unknown, "", 0},
		{ldap.NewError(ldap.ErrorNetwork, assert.AnError), retry.Retryable, "ldap_200", 0},
		{ldap.NewError(ldap.ErrorFilterCompile, assert.AnError), retry.Final, "ldap_201", 0},
		{&ssh.OpenChannelError{Reason: ssh.ResourceShortage}, retry.Retryable, "ssh_4", 0},
		{&ssh.AlgorithmNegotiationError{}, retry.Final, "ssh", 0},
		{&slack.SlackErrorResponse{Err: "invalid_auth"}, retry.Final, "permission", 0},
		{&slack.SlackErrorResponse{Err: "ratelimited"}, retry.RateLimited, "rate_limited", 0},
		{&github.AcceptedError{}, retry.Retryable, "not_ready", 0},
		{kerr.NotLeaderForPartition, retry.Retryable, "kafka_6", 0},
		{kerr.ThrottlingQuotaExceeded, retry.RateLimited, "kafka_89", 0},
		{kerr.TopicAuthorizationFailed, retry.Final, "kafka_29", 0},
		{kerr.RebalanceInProgress, retry.Unknown, "", 0},
		{containerd.ErrUnavailable, retry.Retryable, "unavailable", 0},
		{containerd.ErrNotFound, retry.Final, "not_found", 0},
		{containerd.ErrInvalidArgument, retry.Final, "invalid", 0},
		{containerd.ErrPermissionDenied, retry.Final, "permission", 0},
	} {
		v := retry.Classify(fmt.Errorf("client: %w", tt.err))
		assert.Equal(t, tt.class, v.Class, "%T %v", tt.err, tt.err)
		assert.Equal(t, tt.category, v.Category, "%T %v", tt.err, tt.err)
		assert.Equal(t, tt.after, v.After, "%T %v", tt.err, tt.err)
	}
}

// The codes that the protocol calls retriable are those that are Retryable.
func TestCodesOfKafka(t *testing.T) {
	t.Parallel()
	for code := range int16(200) {
		err := kerr.TypedErrorForCode(code)
		if err == nil || err.Code != code {
			continue
		}
		class := retry.Classify(err).Class
		assert.Equal(t, err.Retriable, class == retry.Retryable || class == retry.RateLimited, "%d %v", code, err)
	}
}
