package retrytable_test

import (
	"fmt"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A table of tickets, with words of its own, that takes the urgent ones first.
func ExampleTable_Schema() {
	tickets := &retrytable.Table[int64]{
		Name:    "tickets",
		Columns: retrytable.Columns{Status: "state", Attempts: "retry_count", Due: "retry_after"},
		Statuses: retrytable.Statuses{
			Ready: "ready", Waiting: "ready", Running: []string{"in_progress"}, Done: []string{"needs_review"}, Dead: "on_hold",
		},
		Where:   "assignee_type = 'agent'",
		OrderBy: "priority DESC, created_at",
	}
	fmt.Print(tickets.Schema())
	// Output:
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "state" text NOT NULL DEFAULT 'ready';
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "retry_after" timestamptz;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
	// ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
	// CREATE INDEX IF NOT EXISTS "tickets_claim" ON "tickets" ("state", priority DESC, created_at) WHERE "state" IN ('ready') AND "retry_after" IS NULL AND (assignee_type = 'agent');
	// CREATE INDEX IF NOT EXISTS "tickets_promote" ON "tickets" ("retry_after") WHERE "state" IN ('ready') AND "retry_after" IS NOT NULL AND (assignee_type = 'agent');
	// CREATE INDEX IF NOT EXISTS "tickets_sweep" ON "tickets" ("lease_until") WHERE "state" IN ('in_progress') AND (assignee_type = 'agent');
}
