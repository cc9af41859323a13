package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v7"
	"github.com/eapache/go-resiliency/breaker"
	"github.com/eapache/go-resiliency/retrier"
	"github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	ourretry "github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// feature is something that some libraries have; those that have show it.
func feature(title, how string, probes map[string]func(tester) cell) promise[*contestant] {
	return promise[*contestant]{title, how, func(t tester, c *contestant) cell {
		probe := probes[c.name]
		if probe == nil {
			return cell{absent, "none"}
		}
		return bubble(t, probe)
	}}
}

type shown = map[string]func(tester) cell

func featurePromises(t tester) []promise[*contestant] {
	t.Helper()
	modules := moduleVersions(t.T)
	return []promise[*contestant]{
		feature("Circuit breaker", "It opens after 3 failures; 10 calls that fail.", shown{
			"failsafe": func(tester) cell {
				return reached(3, failsafeRun(circuitbreaker.NewBuilder[any]().WithFailureThreshold(3).Build()))
			},
			"go-resiliency": func(tester) cell {
				b := breaker.New(3, 1, time.Second)
				defer time.Sleep(2 * time.Second) // the goroutine of its timer
				return reached(3, func(ctx context.Context, fn operation) error {
					return b.Run(func() error { return fn(ctx) })
				})
			},
		}),
		feature("Hedging", "The first attempt hangs; another one is made after 100ms.", shown{"failsafe": hedged}),
		feature("Bulkhead", "2 at once; 5 calls at once.", shown{
			"failsafe": func(t tester) cell { return atOnce(t, failsafeRun(bulkhead.New[any](2))) },
			"go-resiliency": func(t tester) cell {
				s := semaphore.New(2, 10*time.Millisecond)
				return atOnce(t, func(ctx context.Context, fn operation) error {
					if err := s.Acquire(); err != nil {
						return err
					}
					defer s.Release()
					return fn(ctx)
				})
			},
		}),
		feature("Rate limiter", "2 per second; 10 calls in turn.", shown{"failsafe": func(tester) cell {
			return reached(2, failsafeRun(ratelimiter.NewBursty[any](2, time.Second)))
		}}),
		feature("Fallback", "A failing operation, and a value instead.", shown{"failsafe": func(tester) cell {
			v, err := failsafe.With[int](fallback.NewWithResult(7), retrypolicy.NewWithDefaults[int]()).
				Get(func() (int, error) { return 0, errOp })
			return keptIf(v == 7 && err == nil, "the value, %s error", choose(err == nil, "no", "an"))
		}}),
		feature("Asynchronous calls", "A call that fails once is started, and waited for.", shown{"failsafe": func(tester) cell {
			calls := 0
			r := failsafe.With[int](retrypolicy.NewWithDefaults[int]()).GetAsync(func() (int, error) {
				calls++
				return calls, choose(calls == 1, errOp, nil)
			})
			v, err := r.Get()
			return keptIf(v == 2 && err == nil, "the value of the second attempt")
		}}),
		feature("Retries of results, not only of errors", "An operation that succeeds twice with a result that is not wanted.", shown{
			"failsafe": func(tester) cell {
				calls := 0
				p := retrypolicy.NewBuilder[int]().HandleIf(func(v int, _ error) bool { return v < 3 }).Build()
				v, _ := failsafe.With[int](p).Get(func() (int, error) { calls++; return calls, nil })
				return keptIf(v == 3, "%s", count(calls, "call"))
			},
			"k8s-wait": func(t tester) cell {
				calls := 0
				err := wait.ExponentialBackoffWithContext(t.Context(), wait.Backoff{Steps: 5}, func(context.Context) (bool, error) {
					calls++
					return calls == 3, nil
				})
				return keptIf(err == nil && calls == 3, "%s", count(calls, "call"))
			},
			"retry": func(t tester) cell {
				calls := 0
				v, err := ourretry.Do(t.Context(), nil, func(context.Context) (int, error) {
					if calls++; calls < 3 {
						return calls, ourretry.MarkPending(errOp)
					}
					return calls, nil
				})
				return keptIf(v == 3 && err == nil, "%s, where the operation says MarkPending", count(v, "call"))
			},
		}),
		feature("A ticker to loop over", "Three ticks of a constant backoff.", shown{
			"backoff-v7": func(tester) cell {
				ticker := backoff.NewTicker(backoff.NewConstantBackOff(time.Second))
				defer ticker.Stop()
				return ticked(ticker.C)
			},
		}),
		{
			"All errors are collected", "Three attempts, three errors; `errors.Is` looks for the first in what comes back.",
			func(t tester, c *contestant) cell {
				r := played(t, c.prepare(policy{attempts: 3}), func(_ context.Context, n int) error { return choose(n == 1, errOther, errOp) })
				if errors.Is(r.err, errOther) {
					return cell{kept, "the first, too"}
				}
				return cell{absent, "the last only"}
			},
		},
		feature("The operation is told which attempt it is", "Three attempts.", shown{
			"failsafe": func(tester) cell {
				var told []int
				_ = failsafe.With[any](retrypolicy.NewWithDefaults[any]()).RunWithExecution(func(e failsafe.Execution[any]) error {
					told = append(told, e.Attempts())
					return errOp
				})
				return keptIf(fmt.Sprint(told) == "[1 2 3]", "%v", told)
			},
			"go-resiliency": func(t tester) cell {
				var told []int
				_ = retrier.New(retrier.ConstantBackoff(2, 0), nil).RunFn(t.Context(), func(_ context.Context, retries int) error {
					told = append(told, retries)
					return errOp
				})
				return keptIf(fmt.Sprint(told) == "[0 1 2]", "%v, the number of retries", told)
			},
			"retry": func(t tester) cell {
				var told []int
				call := ourretry.Call{}
				for call.Next(t.Context()) {
					told = append(told, call.Attempt())
					call.End(errOp)
				}
				return keptIf(fmt.Sprint(told) == "[1 2 3]", "%v, in a loop over a Call", told)
			},
		}),
		feature("Knows the status codes of gRPC", "`Unavailable` is retried, `InvalidArgument` is not.", shown{
			"gax": func(tester) cell {
				return grpcCodes(gaxRun(func() gax.Retryer {
					return &limitedRetryer{p: policy{attempts: 3, jitter: true}, own: gax.OnCodes([]codes.Code{codes.Unavailable}, gax.Backoff{})}
				}), "told with OnCodes")
			},
			"failsafe": func(tester) cell {
				return grpcCodes(failsafeRun(failsafegrpc.NewRetryPolicyBuilder[any]().Build()), "failsafegrpc")
			},
			"retry": func(tester) cell {
				return grpcCodes(executor(&ourretry.Policy{Classifier: retrygrpc.Classify}), "retrygrpc.Classify")
			},
		}),
		feature("Knows the error codes of AWS", "Both come with the status 400: `ThrottlingException` is retried, `ValidationException` is not.", shown{
			"aws-sdk": func(tester) cell { return awsCodes(awsRun(retry.NewStandard())) },
			"retry":   func(tester) cell { return awsCodes(executor(&ourretry.Policy{})) },
		}),
		{
			"Links nothing but the standard library", "`go list -deps` of the package.",
			func(t tester, c *contestant) cell {
				n := linked(t.T, c)
				return keptIf(n == 0, "%s", count(n, "foreign module"))
			},
		},
		{
			"Its go.mod asks for nothing", "`require` lines, those for its tests included.",
			func(t tester, c *contestant) cell {
				n := required(t.T, modules[c.module])
				return keptIf(n == 0, "%s", count(n, "module"))
			},
		},
		{
			"Works with Go 1.23 and older", "The `go` line of its go.mod.",
			func(_ tester, c *contestant) cell {
				needs := modules[c.module].needs
				minor, _ := strconv.Atoi(strings.Split(needs, ".")[1])
				return keptIf(minor <= 23, "%s", needs)
			},
		},
		{
			"Read over a coffee: less than 1000 lines", "The lines of the package, without tests.",
			func(t tester, c *contestant) cell {
				n := lines(t.T, c)
				return keptIf(n < 1000, "%s", choose(n < 1000, "less", "more")) // not the number: ours changes daily
			},
		},
	}
}

// reached makes 10 failing calls and tells how many came to the operation.
func reached(want int, do call) cell {
	n := 0
	for range 10 {
		n += failing(context.Background(), do).calls
	}
	return keptIf(n == want, "%d of 10 calls reached the operation", n)
}

// atOnce makes 5 calls at once and tells how many came to the operation.
func atOnce(t tester, do call) cell {
	t.Helper()
	runs := make(chan run)
	for range 5 {
		go func() {
			runs <- record(t.Context(), do, func(context.Context, int) error { time.Sleep(time.Second); return nil })
		}()
	}
	n := 0
	for range 5 {
		n += (<-runs).calls
	}
	return keptIf(n == 2, "%d of 5 calls reached the operation", n)
}

func hedged(tester) cell {
	start := time.Now()
	_, err := failsafe.With[int](hedgepolicy.NewWithDelay[int](100 * time.Millisecond)).
		GetWithExecution(func(e failsafe.Execution[int]) (int, error) {
			if e.IsHedge() {
				return 1, nil
			}
			<-e.Canceled()
			return 0, errOp
		})
	return keptIf(err == nil, "a result after %v", time.Since(start))
}

func ticked(ticks <-chan time.Time) cell {
	start := time.Now()
	for range 3 {
		<-ticks
	}
	return keptIf(time.Since(start) == 2*time.Second, "3 ticks within %v", time.Since(start))
}

func grpcCodes(do call, how string) cell {
	again := record(context.Background(), do, always(status.Error(codes.Unavailable, "")))
	final := record(context.Background(), do, always(status.Error(codes.InvalidArgument, "")))
	ok := again.calls == 3 && final.calls == 1
	return cell{choose(ok, kept, absent), fmt.Sprintf("%s: %d and %s", how, again.calls, count(final.calls, "call"))}
}

// awsError is an error as clients of AWS return it.
func awsError(code string) error {
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest}},
		Err:      &smithy.GenericAPIError{Code: code},
	}
}

func awsCodes(do call) cell {
	again := record(context.Background(), do, always(awsError("ThrottlingException")))
	final := record(context.Background(), do, always(awsError("ValidationException")))
	ok := again.calls == 3 && final.calls == 1
	return cell{choose(ok, kept, absent), fmt.Sprintf("%d and %s", again.calls, count(final.calls, "call"))}
}
