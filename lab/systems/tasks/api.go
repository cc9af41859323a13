package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// openAPI describes the API.
//
//go:embed openapi.json
var openAPI embed.FS

// problem is an error for whoever sent the request.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

// handler is the HTTP API.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, answer) })
	}
	handle("POST /task", func(r *http.Request) (any, error) {
		var batch []newTask
		if err := decode(r, &batch); err != nil {
			return nil, err
		}
		return s.create(r.Context(), batch)
	})
	handle("GET /task", func(r *http.Request) (any, error) {
		asked := r.URL.Query()
		asked.Set("limit", cmp.Or(asked.Get("limit"), strconv.Itoa(mostListed)))
		all, err := s.list(r.Context(), asked)
		basic := make([]basicTask, len(all))
		for i := range all {
			basic[i] = all[i].basicTask
		}
		return basic, err
	})
	handle("GET /task/{id}", func(r *http.Request) (any, error) { return s.task(r.Context(), s.db, r.PathValue("id")) })
	handle("PATCH /task/{id}", func(r *http.Request) (any, error) {
		var p patch
		if err := decode(r, &p); err != nil {
			return nil, err
		}
		if err := p.validate(); err != nil {
			return nil, &problem{http.StatusBadRequest, err.Error()}
		}
		return s.apply(r.Context(), r.PathValue("id"), p)
	})
	for name := range commands {
		handle("POST /task/{id}/"+name, func(r *http.Request) (any, error) {
			return s.command(r.Context(), r.PathValue("id"), name)
		})
	}
	handle("POST /task/{id}/retry", func(r *http.Request) (any, error) { return s.retry(r.Context(), r.PathValue("id")) })
	handle("POST /batch/{id}/stop", func(r *http.Request) (any, error) {
		stopped, err := s.stopBatch(r.Context(), r.PathValue("id"))
		return map[string]any{"canceled": len(stopped)}, err
	})
	handle("GET /dag", func(r *http.Request) (any, error) { return s.dag(r.Context(), r.URL.Query().Get("batch")) })
	handle("GET /health", func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), soon)
		defer cancel()
		return map[string]string{"status": "ok"}, retry.MarkRetryable(s.db.PingContext(ctx)) // whatever the reason
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.counts, promhttp.HandlerOpts{}))
	mux.Handle("GET /openapi.json", http.FileServerFS(openAPI))
	return mux
}

// answer writes what answer returns, as JSON, or as HTML if it is a page.
func (s *service) answer(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	value, err := answer(r)
	code := http.StatusOK
	var p *problem
	switch {
	case err != nil:
		if p = told(err, r.URL.Path); p.code == http.StatusInternalServerError {
			s.log.Error(r.Method+" "+r.URL.Path, "error", err)
		}
		if p.code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		code, value = p.code, map[string]string{"error": p.text}
	case r.Pattern == "POST /task":
		code = http.StatusCreated
	case r.Pattern == "GET /dag":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = dagPage.Execute(w, value) // the caller has gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the caller has gone
}

// told is the problem that an error is for whoever has sent the request.
func told(err error, path string) *problem {
	var p *problem
	var refused interface{ SQLState() string }
	var gaveUp *retry.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused) && refused.SQLState() == "22P02": // an ID that is none
		return &problem{http.StatusNotFound, path + ": not found"}
	case errors.As(err, &refused) && strings.HasPrefix(refused.SQLState(), "22"): // a text that cannot be stored
		return &problem{http.StatusBadRequest, err.Error()}
	case errors.As(err, &gaveUp): // patience did; why the database was away decides
		err = gaveUp.Err
	}
	if retrysql.Classify(err).Class == retry.Retryable {
		return &problem{http.StatusServiceUnavailable, "the database does not answer: send it again"}
	}
	return &problem{http.StatusInternalServerError, "internal error"}
}

func decode(r *http.Request, into any) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" { // or ""
		return &problem{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type: %.100q: must be application/json", kind)}
	}
	var large *http.MaxBytesError
	var wrong *json.UnmarshalTypeError
	switch err := unmarshalStrict(r.Body, into); {
	case errors.As(err, &wrong):
		return &problem{http.StatusBadRequest, fmt.Sprintf("body: %.100s: must not be a JSON %s", cmp.Or(wrong.Field, "its value"), wrong.Value)}
	case errors.As(err, &large):
		return &problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: must have at most %d bytes", large.Limit)}
	case err != nil:
		return &problem{http.StatusBadRequest, fmt.Sprintf("body: %.300s", err)}
	}
	return nil
}

func (p *patch) validate() error {
	return errors.Join(
		shared.Must(slices.Contains([]status{"", success, failed}, p.Status), "status", strconv.Quote(p.Status.String()),
			"be Success or Failure"),
		shared.Must(p.NewSuccess >= 0, "new_success", p.NewSuccess, "not be negative"),
		shared.Must(p.NewFailures >= 0, "new_failures", p.NewFailures, "not be negative"),
	)
}

// mostListed is how many tasks a list has at most.
const mostListed = 1000

// listed is the query for tasks, oldest first: of a status, of a batch, after another task, and so
// many, as far as that is asked. It has no more conditions than it needs, so that there is an index
// for them.
func listed(asked url.Values) (query string, args []any, err error) {
	query = "SELECT " + taskColumns + " FROM task WHERE true"
	only := func(condition, value string) {
		if value != "" {
			args = append(args, value)
			query += fmt.Sprintf(" AND "+condition, len(args))
		}
	}
	var of status
	if word := asked.Get("status"); word != "" {
		err = of.UnmarshalText([]byte(word))
	}
	only("status = $%d", string(of))
	only("batch_id = $%d", asked.Get("batch"))
	only("(created_at, position, id) > (SELECT created_at, position, id FROM task WHERE id = $%d)", asked.Get("after"))
	query += " ORDER BY created_at, position, id"
	if word := asked.Get("limit"); word != "" {
		n, atoiErr := strconv.Atoi(word)
		if atoiErr != nil || n < 1 || n > mostListed {
			err = errors.Join(err, fmt.Errorf("limit: %q: must be from 1 to %d", word, mostListed))
		}
		query += fmt.Sprintf(" LIMIT %d", n)
	}
	return query, args, err
}

// list returns what is asked for.
func (s *service) list(ctx context.Context, asked url.Values) ([]task, error) {
	query, args, err := listed(asked)
	if err != nil {
		return nil, &problem{http.StatusBadRequest, err.Error()}
	}
	return s.tasks(ctx, s.db, query, args...)
}
