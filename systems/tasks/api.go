package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

const maxBody = 1 << 20

// openAPI describes the API.
//
//go:embed openapi.json
var openAPI []byte

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
		all, err := s.list(r.Context(), r.URL.Query().Get("status"), r.URL.Query().Get("batch"))
		basic := make([]basicTask, len(all))
		for i := range all {
			basic[i] = all[i].basicTask
		}
		return basic, err
	})
	handle("GET /task/{id}", func(r *http.Request) (any, error) {
		var t task
		err := s.inTx(r.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			t, err = s.task(ctx, tx, r.PathValue("id"))
			return err
		})
		return t, err
	})
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
	for name, command := range map[string]func(context.Context, string) (task, error){
		"cancel": s.cancel, "pause": s.pause, "unpause": s.unpause,
	} {
		handle("POST /task/{id}/"+name, func(r *http.Request) (any, error) {
			return command(r.Context(), r.PathValue("id"))
		})
	}
	handle("POST /batch/{id}/stop", func(r *http.Request) (any, error) {
		ids, err := s.stopBatch(r.Context(), r.PathValue("id"))
		return map[string]any{"canceled": len(ids)}, err
	})
	mux.HandleFunc("GET /dag", s.dag)
	mux.Handle("GET /metrics", s.counts.handler())
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	return mux
}

// answer writes what answer returns, as JSON.
func (s *service) answer(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	value, err := answer(r)
	var p *problem
	var refused interface{ SQLState() string }
	code := http.StatusOK
	switch {
	case errors.As(err, &refused) && refused.SQLState() == "22P02": // an ID that is none
		code, value = http.StatusNotFound, map[string]string{"error": r.URL.Path + ": not found"}
	case errors.As(err, &refused) && strings.HasPrefix(refused.SQLState(), "22"): // a text that cannot be stored
		code, value = http.StatusBadRequest, map[string]string{"error": err.Error()}
	case errors.As(err, &p):
		code, value = p.code, map[string]string{"error": p.text}
	case err != nil:
		s.log.Error(r.Method+" "+r.URL.Path, "error", err)
		code, value = http.StatusInternalServerError, map[string]string{"error": "internal error"}
		var gaveUp *retry.Error
		if errors.As(err, &gaveUp) { // patience did; why the database was away decides
			err = gaveUp.Err
		}
		if retrysql.Classify(err).Class == retry.Retryable {
			w.Header().Set("Retry-After", "1")
			code, value = http.StatusServiceUnavailable, map[string]string{"error": "the database does not answer: send it again"}
		}
	case r.Pattern == "POST /task":
		code = http.StatusCreated
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the caller has gone
}

func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err == nil {
		err = unmarshalStrict(body, into)
	}
	if err != nil {
		return &problem{http.StatusBadRequest, "body: " + err.Error()}
	}
	return nil
}

// validate turns the status into that of the database.
func (p *patch) validate() error {
	var errs []error
	if p.Status != "" {
		status, err := parseStatus(p.Status)
		if err != nil || status != success && status != failed {
			errs = append(errs, fmt.Errorf("status: %q: must be Success or Failure", p.Status))
		}
		p.Status = string(status)
	}
	if p.NewSuccess < 0 {
		errs = append(errs, fmt.Errorf("new_success: %d: must not be negative", p.NewSuccess))
	}
	if p.NewFailures < 0 {
		errs = append(errs, fmt.Errorf("new_failures: %d: must not be negative", p.NewFailures))
	}
	return errors.Join(errs...)
}

// list returns tasks, those of one status and one batch if these are not empty.
func (s *service) list(ctx context.Context, word, batch string) (found []task, err error) {
	var only status
	if word != "" {
		if only, err = parseStatus(word); err != nil {
			return nil, &problem{http.StatusBadRequest, err.Error()}
		}
	}
	query, args := listQuery(only, batch)
	return shared.Query(ctx, s.db, func(rows *sql.Rows) (task, error) { return scanTask(rows) }, s.db.SQL(query), args...)
}

// listQuery has no more conditions than it needs, so that there is an index for them.
func listQuery(of status, batch string) (query string, args []any) {
	conditions := []string{"true"}
	only := func(column, value string) {
		if value != "" {
			args = append(args, value)
			conditions = append(conditions, fmt.Sprintf("%s = $%d", column, len(args)))
		}
	}
	only("status", string(of))
	only("batch_id", batch)
	return "SELECT " + taskColumns + " FROM task WHERE " + strings.Join(conditions, " AND ") +
		" ORDER BY created_at, batch_id, position", args
}
