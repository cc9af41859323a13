ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "attempts" bigint NOT NULL DEFAULT 0;
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "due_at" timestamptz DEFAULT statement_timestamp();
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS "jobs_claim" ON "jobs" ((CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END)) WHERE "status" IN ('ready', 'waiting');
CREATE INDEX IF NOT EXISTS "jobs_sweep" ON "jobs" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "jobs_dead" ON "jobs" ("status", "id") WHERE "status" IN ('dead');
ALTER TABLE "jobs" SET (autovacuum_vacuum_scale_factor = 0.01);

-- claim
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('ready', 'waiting') AND CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END <= statement_timestamp() ORDER BY CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "jobs" SET "status" = 'running', "attempts" = coalesce("attempts", 0) + 1, "due_at" = NULL, "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- sweep
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('running') AND "lease_until" <= statement_timestamp() ORDER BY "lease_until" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "jobs" SET "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- promote
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('ready', 'waiting') AND CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END <= statement_timestamp() AND ("due_at" IS NOT NULL) ORDER BY CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "jobs" SET "status" = 'ready', "due_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- succeed
UPDATE "jobs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- succeed as
UPDATE "jobs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- retry
UPDATE "jobs" SET "status" = 'waiting', "lease_until" = NULL, "attempts" = $1, "due_at" = clock_timestamp() + $2::bigint * interval '1 microsecond' WHERE "id" = $3 AND "fence" = $4 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- end
UPDATE "jobs" SET "status" = 'dead', "lease_until" = NULL, "attempts" = $1, "due_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "jobs" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "jobs" SET "lease_until" = clock_timestamp() + $1::bigint * interval '1 microsecond' FROM held WHERE "id" = held_id;

-- release
UPDATE "jobs" SET "status" = 'ready', "attempts" = "attempts" - 1, "due_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
