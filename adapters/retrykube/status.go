package retrykube

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5ff3c98e/retry"
)

// codes has the HTTP status of each reason. As in package apierrors, the code of a Status
// counts only if its reason is none of these.
var codes = map[metav1.StatusReason]int{
	metav1.StatusReasonBadRequest:            http.StatusBadRequest,
	metav1.StatusReasonUnauthorized:          http.StatusUnauthorized,
	metav1.StatusReasonForbidden:             http.StatusForbidden,
	metav1.StatusReasonNotFound:              http.StatusNotFound,
	metav1.StatusReasonMethodNotAllowed:      http.StatusMethodNotAllowed,
	metav1.StatusReasonNotAcceptable:         http.StatusNotAcceptable,
	metav1.StatusReasonAlreadyExists:         http.StatusConflict,
	metav1.StatusReasonConflict:              http.StatusConflict,
	metav1.StatusReasonGone:                  http.StatusGone,
	metav1.StatusReasonExpired:               http.StatusGone,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
	metav1.StatusReasonUnsupportedMediaType:  http.StatusUnsupportedMediaType,
	metav1.StatusReasonInvalid:               http.StatusUnprocessableEntity,
	metav1.StatusReasonTooManyRequests:       http.StatusTooManyRequests,
	metav1.StatusReasonInternalError:         http.StatusInternalServerError,
	metav1.StatusReasonServerTimeout:         http.StatusInternalServerError,
	metav1.StatusReasonStoreReadError:        http.StatusInternalServerError,
	metav1.StatusReasonServiceUnavailable:    http.StatusServiceUnavailable,
	metav1.StatusReasonTimeout:               http.StatusGatewayTimeout,
}

// maxNodes bounds the errors of one tree that are looked at: an Aggregate may contain itself.
const maxNodes = 1000

// classify is the Protocol of an attempt. NotApplied is cleared because a reconciler makes
// several requests, of which this error is about one.
func classify(err error) retry.Verdict {
	t := tree{nodes: maxNodes}
	v := t.classify(err)
	if t.nodes < 0 { // and which nodes were looked at depends on the order
		return retry.Verdict{}
	}
	v.NotApplied = false
	return v
}

// tree is a tree of errors, with the number of nodes that may still be looked at.
type tree struct{ nodes int }

func (t *tree) classify(err error) retry.Verdict { return retry.Extend(t.node)(err) }

// node classifies one error.
func (t *tree) node(err error) retry.Verdict {
	if t.nodes--; t.nodes < 0 {
		return retry.Verdict{}
	}
	if several := aggregated(err); several != nil {
		return t.classify(errors.Join(several...))
	}
	if s, ok := statusOf(err); ok {
		return verdict(&s)
	}
	return retry.Verdict{}
}

// aggregated returns the errors of an Aggregate, which has no Unwrap.
func aggregated(err error) []error {
	defer func() { _ = recover() }() // of a typed nil
	if e, ok := err.(interface{ Errors() []error }); ok {
		return e.Errors()
	}
	return nil
}

// statusOf returns the Status of the error itself.
func statusOf(err error) (_ metav1.Status, ok bool) {
	defer func() {
		if recover() != nil { // of a typed nil
			ok = false
		}
	}()
	if e, is := err.(apierrors.APIStatus); is { // is called for each error of the tree
		return e.Status(), true
	}
	return metav1.Status{}, false
}

// verdict ends an item only if a change to the object or to the program has to come first: the
// change of the object is an event. All else may be different at the next pass, which reads
// the objects anew.
func verdict(s *metav1.Status) (v retry.Verdict) {
	code, known := codes[s.Reason]
	if !known {
		code = int(s.Code)
	}
	switch code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		v.Class = retry.Final
	case http.StatusTooManyRequests:
		v.Class = retry.RateLimited
	default:
		v.Class = retry.Retryable
	}
	if code >= 400 && code < 600 { // the server may say any number
		v.Category = "http_" + strconv.Itoa(code)
	}
	if s.Details != nil {
		v.After = time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	return v
}
