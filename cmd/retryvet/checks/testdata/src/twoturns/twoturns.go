package twoturns

import (
	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func both() (*retrytable.Worker, *retryhttp.Transport) {
	quota := &retryquota.Quota{}
	policy := &retry.Policy{Quota: quota}
	return &retrytable.Worker{Policy: policy},
		&retryhttp.Transport{Policy: &retry.Policy{MaxAttempts: 2, Quota: quota}} // want `a job of the Worker needs two turns of this Quota`
}

type limits struct{ api *retryquota.Quota }

func field(l limits) (retrytable.Worker, retryhttp.Transport) {
	return retrytable.Worker{Policy: &retry.Policy{Quota: l.api}},
		retryhttp.Transport{Policy: &retry.Policy{Quota: l.api}} // want `two turns of this Quota`
}

// What follows is in order.

func two() (*retrytable.Worker, *retryhttp.Transport) {
	jobs, requests := &retryquota.Quota{}, &retryquota.Quota{}
	return &retrytable.Worker{Policy: &retry.Policy{Quota: jobs}},
		&retryhttp.Transport{Policy: &retry.Policy{Quota: requests}}
}

func one() (*retrytable.Worker, *retryhttp.Transport) {
	quota := &retryquota.Quota{}
	return &retrytable.Worker{Policy: &retry.Policy{Quota: quota}}, &retryhttp.Transport{Policy: &retry.Policy{}}
}
