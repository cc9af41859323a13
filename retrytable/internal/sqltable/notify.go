package sqltable

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// longestChannel is how long the name of a channel may be, in bytes.
const longestChannel = 63

// notifying is the trigger that notifies a channel of new rows that are due. A commit that notifies
// has a lock of the whole database until it is on disk, so the trigger is still while a listener has
// the lock of the channel, because it looks for jobs all the time. The lock of the trigger is given
// back at once, or a transaction that stays open would keep it from the listener.
//
// The name has a digest of the channel and of what is ready, because a table may have several of both.
// A trigger whose function has another body is an older one, which is replaced.
func (d postgres) notifying(b *builder) part {
	from := b.claimIndex()
	channel := strings.ReplaceAll(literal(b.Notify), "$", "'||chr(36)||'") // which would end the function
	lock := fmt.Sprintf("hashtext('retrytable.Notify'), hashtext(%s)", channel)
	body := fmt.Sprintf("BEGIN IF pg_try_advisory_lock_shared(%s) AND pg_advisory_unlock_shared(%s) THEN "+
		"IF EXISTS (SELECT FROM inserted WHERE %s) THEN PERFORM pg_notify(%s, ''); END IF; END IF; RETURN NULL; END",
		lock, lock, from.passed(b), channel)
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(b.Notify + " " + from.condition))
	schema, table := b.schemaAndName()
	name := d.indexName(table, fmt.Sprintf("_notify_%08x", digest.Sum32()))
	function := d.quote(name)
	if schema != "" {
		function = d.quote(schema) + "." + function
	}
	return part{index: name + ": " + body + " ", dispensable: true, sql: fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $notify$ %s $notify$; "+
		"DROP TRIGGER IF EXISTS %s ON %s; CREATE TRIGGER %s AFTER INSERT ON %s REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION %s()",
		function, body, d.quote(name), b.table, d.quote(name), b.table, function)}
}
