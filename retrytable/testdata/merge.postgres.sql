ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "next_retry_at" timestamptz;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "first_at" timestamptz;
CREATE INDEX IF NOT EXISTS "runs_claim" ON "app"."runs" ("status", submitted) WHERE "status" IN ('ready');
CREATE INDEX IF NOT EXISTS "runs_retry" ON "app"."runs" ("next_retry_at") WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "runs_sweep" ON "app"."runs" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "runs_dead" ON "app"."runs" ("status", "id") WHERE "status" IN ('error') AND "next_retry_at" IS NULL;
ALTER TABLE "app"."runs" SET (autovacuum_vacuum_scale_factor = 0.01);

-- claim
WITH fresh AS MATERIALIZED (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('ready') ORDER BY submitted LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED), picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "app"."runs" WHERE "id" = ANY (ARRAY(SELECT picked_id FROM fresh UNION ALL (SELECT "id" AS picked_id FROM (SELECT * FROM "app"."runs" WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp() ORDER BY "next_retry_at" LIMIT 1000) AS "runs" ORDER BY submitted LIMIT 110))) AND ("status" IN ('ready') OR "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp()) ORDER BY submitted LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."runs" SET "status" = 'running', "next_retry_at" = NULL, "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1, "first_at" = coalesce("first_at", statement_timestamp()) WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("retry_count", 0) + 1, 0, 0, CASE WHEN isfinite("first_at") THEN (extract(epoch FROM "first_at") * 1000000)::bigint END, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- sweep
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('running') AND "lease_until" <= statement_timestamp() ORDER BY "lease_until" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."runs" SET "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("retry_count", 0) + 1, 0, 0, CASE WHEN isfinite("first_at") THEN (extract(epoch FROM "first_at") * 1000000)::bigint END, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- promote
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp() ORDER BY "next_retry_at" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."runs" SET "status" = 'ready', "next_retry_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- succeed
UPDATE "app"."runs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- succeed as
UPDATE "app"."runs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- retry
UPDATE "app"."runs" SET "status" = 'error', "lease_until" = NULL, "retry_count" = $1, "first_at" = coalesce('epoch'::timestamptz + $2::bigint * interval '1 microsecond', "first_at"), "next_retry_at" = clock_timestamp() + $3::bigint * interval '1 microsecond' WHERE "id" = $4 AND "fence" = $5 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- end
UPDATE "app"."runs" SET "status" = 'error', "lease_until" = NULL, "first_at" = coalesce('epoch'::timestamptz + $1::bigint * interval '1 microsecond', "first_at"), "next_retry_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "app"."runs" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "app"."runs" SET "lease_until" = clock_timestamp() + $1::bigint * interval '1 microsecond' FROM held WHERE "id" = held_id;

-- release
UPDATE "app"."runs" SET "status" = 'ready', "first_at" = CASE WHEN "retry_count" <= 0 THEN NULL ELSE "first_at" END, "next_retry_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
