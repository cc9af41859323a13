ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "attempts" bigint NOT NULL DEFAULT 0;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "due_at" bigint DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "lease_until" bigint;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS "tickets_claim" ON "tickets" ((coalesce("due_at", 0))) WHERE "status" IN ('ready');
CREATE INDEX IF NOT EXISTS "tickets_sweep" ON "tickets" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "tickets_dead" ON "tickets" ("status", "id") WHERE "status" IN ('dead');
ALTER TABLE "tickets" SET (autovacuum_vacuum_scale_factor = 0.01);

-- claim
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('ready') AND coalesce("due_at", 0) <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 ORDER BY coalesce("due_at", 0) LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "tickets" SET "status" = 'running', "attempts" = coalesce("attempts", 0) + 1, "due_at" = NULL, "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000::bigint + 999) / 1000, "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- sweep
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('running') AND "lease_until" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 ORDER BY "lease_until" LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "tickets" SET "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000::bigint + 999) / 1000, "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- promote
WITH picked AS MATERIALIZED (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('ready') AND coalesce("due_at", 0) <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 AND ("due_at" IS NOT NULL) ORDER BY coalesce("due_at", 0) LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED) UPDATE "tickets" SET "status" = 'ready', "due_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- succeed
UPDATE "tickets" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- succeed as
UPDATE "tickets" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- retry
UPDATE "tickets" SET "status" = 'ready', "lease_until" = NULL, "attempts" = $1, "due_at" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2::bigint + 999) / 1000 WHERE "id" = $3 AND "fence" = $4 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- end
UPDATE "tickets" SET "status" = 'dead', "lease_until" = NULL, "attempts" = $1, "due_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "tickets" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "tickets" SET "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1::bigint + 999) / 1000 FROM held WHERE "id" = held_id;

-- release
UPDATE "tickets" SET "status" = 'ready', "attempts" = "attempts" - 1, "due_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
