ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "select" text NOT NULL DEFAULT 'it''s new';
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "next_retry_at" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "lease" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "f""e" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "limited" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "polls" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "first" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "ended" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "so""rt" text;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "sort of" text;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "why" text;
CREATE INDEX IF NOT EXISTS "run""s_claim" ON "app"."run""s" ("select", submitted_date) WHERE "select" IN ('it''s new') AND "next_retry_at" IS NULL;
CREATE INDEX IF NOT EXISTS "run""s_promote" ON "app"."run""s" ("next_retry_at") WHERE "select" IN ('it''s new', 'error') AND "next_retry_at" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "run""s_sweep" ON "app"."run""s" ("lease") WHERE "select" IN ('claimed', 'running');
CREATE INDEX IF NOT EXISTS "run""s_dead" ON "app"."run""s" ("select", "run id") WHERE "select" IN ('error') AND "next_retry_at" IS NULL;

-- claim
WITH picked AS MATERIALIZED (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('it''s new') AND "next_retry_at" IS NULL AND (category = $1) AND (busy < $3 OR urgent) ORDER BY submitted_date LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."run""s" SET worker = $2, "select" = 'claimed', "retry_count" = coalesce("retry_count", 0) + 1, "next_retry_at" = NULL, "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 300000000::bigint + 999999) / 1000000, "f""e" = coalesce("f""e", 0) + 1, "first" = coalesce("first", (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000) WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id", "f""e", coalesce("retry_count", 0), coalesce("limited", 0), coalesce("polls", 0), "first" * 1000000, "so""rt", NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- sweep
WITH picked AS MATERIALIZED (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('claimed', 'running') AND "lease" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000 AND (category = $1) ORDER BY "lease" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."run""s" SET "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 300000000::bigint + 999999) / 1000000, "f""e" = coalesce("f""e", 0) + 1 WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id", "f""e", coalesce("retry_count", 0), coalesce("limited", 0), coalesce("polls", 0), "first" * 1000000, "so""rt", NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- promote
WITH picked AS MATERIALIZED (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('it''s new', 'error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000 AND (category = $1) ORDER BY "next_retry_at" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "app"."run""s" SET promoted = true, "select" = 'it''s new', "next_retry_at" = NULL WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id";

-- succeed
UPDATE "app"."run""s" SET retry_count = 0, "select" = $1, "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "sort of" = NULL, "why" = NULL WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- succeed as
UPDATE "app"."run""s" SET retry_count = 0, "select" = $1, "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "sort of" = NULL, "why" = NULL WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- retry
UPDATE "app"."run""s" SET error = $1, hold_reason = NULL, "select" = 'error', "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "retry_count" = $2, "limited" = $3, "polls" = $4, "first" = coalesce($5::bigint / 1000000, "first"), "next_retry_at" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $6::bigint + 999999) / 1000000, "sort of" = $7, "why" = $8 WHERE "run id" = $9 AND "f""e" = $10 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- end
UPDATE "app"."run""s" SET error = $1, hold_reason = $1, "select" = 'error', "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "retry_count" = $2, "limited" = $3, "polls" = $4, "first" = coalesce($5::bigint / 1000000, "first"), "next_retry_at" = NULL, "sort of" = $6, "why" = $7 WHERE "run id" = $8 AND "f""e" = $9 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- extend
WITH held AS MATERIALIZED (SELECT "run id" AS held_id FROM "app"."run""s" WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL FOR NO KEY UPDATE) UPDATE "app"."run""s" SET "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1::bigint + 999999) / 1000000 FROM held WHERE "run id" = held_id;

-- release
UPDATE "app"."run""s" SET worker = NULL, "select" = 'it''s new', "first" = CASE WHEN "retry_count" <= 1 AND coalesce("limited", 0) = 0 AND coalesce("polls", 0) = 0 THEN NULL ELSE "first" END, "retry_count" = "retry_count" - 1, "next_retry_at" = NULL, "lease" = NULL WHERE "run id" = $1 AND "f""e" = $2 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;
