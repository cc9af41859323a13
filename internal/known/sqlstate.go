package known

import (
	"reflect"
	"slices"
	"strings"
)

// sqlStates has the codes worth another attempt, if the unit of a retry is the
// whole transaction. They are codes of PostgreSQL and CockroachDB, some shared
// by other databases.
//
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var sqlStates = map[string]Fact{
	"40001": Unapplied("sql_40001"), // serialization_failure
	"CR000": Unapplied("sql_CR000"), // the same in old versions of CockroachDB
	"40P01": Unapplied("sql_40P01"), // deadlock_detected
	"55P03": Unapplied("sql_55P03"), // lock_not_available
	"55006": Unapplied("sql_55006"), // object_in_use
	"25P03": Unapplied("sql_25P03"), // idle_in_transaction_session_timeout
	"25006": Unapplied("sql_25006"), // read_only_sql_transaction: a demoted primary, new connection
	"26000": Unapplied("sql_26000"), // invalid_sql_statement_name: pooled connection, new connection
	"42P05": Unapplied("sql_42P05"), // duplicate_prepared_statement: the same
	"72000": Unapplied("sql_72000"), // snapshot_too_old
	"40003": Transient("sql_40003"), // statement_completion_unknown
	"08007": Transient("sql_08007"), // transaction_resolution_unknown
	"57P01": Transient("sql_57P01"), // admin_shutdown
	"57P02": Transient("sql_57P02"), // crash_shutdown
	"57P05": Transient("sql_57P05"), // idle_session_timeout
	"57P03": Unapplied("sql_57P03"), // cannot_connect_now
	"53000": Unapplied("sql_53000"), // insufficient_resources
	"53200": Unapplied("sql_53200"), // out_of_memory
	"53400": Unapplied("sql_53400"), // configuration_limit_exceeded
	"08000": Transient("sql_08000"), // connection_exception
	"08003": Transient("sql_08003"), // connection_does_not_exist
	"08006": Transient("sql_08006"), // connection_failure
	"08P01": Transient("sql_08P01"), // protocol_violation, and what PgBouncer says; see Postgres
	"08C00": Transient("sql_08C00"), // CockroachDB: its proxy has no connection
	"58C00": Transient("sql_58C00"), // CockroachDB: a range is unavailable
	"58C01": Transient("sql_58C01"), // CockroachDB: no connection between its nodes
	"HV00N": Transient("sql_HV00N"), // fdw_unable_to_establish_connection
	"08001": Unapplied("sql_08001"), // sqlclient_unable_to_establish_sqlconnection
	"08004": Unapplied("sql_08004"), // sqlserver_rejected_establishment_of_sqlconnection
	"53300": Rejected("sql_53300"),  // too_many_connections
}

// finalSQLStates has exact codes, finalSQLClasses first two characters of
// codes.
var (
	finalSQLStates = []string{
		"40000", "40002", // transaction_rollback, integrity constraint at commit
		"57014",          // query_canceled
		"25P04",          // transaction_timeout
		"57P04",          // database_dropped
		"53100",          // disk_full
		"25P02",          // in_failed_sql_transaction: the error before it counts
		"25001", "25P01", // active_sql_transaction, no_active_sql_transaction
		"55000", "3B001", // object_not_in_prerequisite_state, invalid_savepoint_specification
		"3D000", "3F000", // invalid_catalog_name, invalid_schema_name
		"55P02", "55P04", // cant_change_runtime_param, unsafe_new_enum_value_usage
		"XX000",          // internal_error; see Postgres
		"XX001", "XX002", // data_corrupted, index_corrupted
		"XXC01", "XXC02", // CockroachDB: a feature that needs a license, or a valid one
	}
	finalSQLClasses = []string{
		"09", // triggered_action_exception
		"0A", // feature_not_supported
		"0B", // invalid_transaction_initiation
		"0F", // locator_exception
		"0L", // invalid_grantor
		"0P", // invalid_role_specification
		"21", // cardinality_violation
		"22", // data_exception
		"23", // integrity_constraint_violation
		"24", // invalid_cursor_state
		"28", // invalid_authorization_specification
		"2B", // dependent_privilege_descriptors_still_exist
		"2D", // invalid_transaction_termination
		"2F", // sql_routine_exception
		"34", // invalid_cursor_name
		"38", // external_routine_exception
		"39", // external_routine_invocation_exception
		"42", // syntax_error_or_access_rule_violation
		"44", // with_check_option_violation
		"54", // program_limit_exceeded
		"P0", // plpgsql_error: RAISE EXCEPTION
	}
)

// Postgres is [SQLState] for an error of pgx or lib/pq that has the state. The severity and
// the function that failed are read too, where the state has more than one meaning. The text
// may be in the language of the server.
func Postgres(state string, err error) Fact {
	switch state {
	case "XX000", "08P01", "58000": // internal_error, protocol_violation, system_error
	case "0A000": // feature_not_supported, mostly
		if elsewhere(err) {
			return Unapplied("sql_0A000")
		}
		return SQLState(state)
	default:
		return SQLState(state)
	}
	e := reflect.ValueOf(err)
	severity := text(field(e, "SeverityUnlocalized"))
	if severity == "" {
		severity = text(field(e, "Severity"))
	}
	switch routine := text(field(e, "Routine")); {
	case severity == "FATAL", severity == "PANIC":
		// A pooler has no better code for its own failures: PgBouncer says 08P01, PgCat
		// 58000, Supavisor XX000. A server that has ended the connection may start again.
		return Transient("sql_" + state)
	case state == "XX000" && strings.HasPrefix(text(field(e, "Message")), redshiftConflict),
		state == "XX000" && slices.Contains(catalogWrites, routine):
		return Unapplied("sql_XX000")
	case state == "08P01" && severity != "":
		return Permanent("sql_08P01")
	default:
		return SQLState(state)
	}
}

// elsewhere reports whether PostgreSQL has not what another connection is likely to have: a plan
// for a table as it is since a migration, or a transaction that a standby cannot have, which
// writes (lib/pq asks for it) or is serializable. The texts are in the language of the server, so
// this looks at the functions that fail, and at the text of CockroachDB, which has one language.
func elsewhere(err error) bool {
	e := reflect.ValueOf(err)
	switch text(field(e, "Routine")) {
	case "RevalidateCachedQuery",
		"call_bool_check_hook", "call_enum_check_hook", "GetSerializableTransactionSnapshot":
		return true
	default:
		return strings.Contains(text(field(e, "Message")), "cached plan must not change result type")
	}
}

// redshiftConflict is the number of a serializable isolation violation, with which the text of
// Amazon Redshift begins.
//
// https://docs.aws.amazon.com/redshift/latest/dg/c_serial_isolation.html
const redshiftConflict = "1023"

// catalogWrites are the functions of PostgreSQL that say "tuple concurrently updated" or
// "tuple concurrently deleted": two sessions have changed one row of a catalog, such as with
// GRANT, REVOKE, ALTER or CREATE OR REPLACE.
//
// https://github.com/postgres/postgres/blob/master/src/backend/access/heap/heapam.c
var catalogWrites = []string{
	"simple_heap_update", "simple_heap_delete", "simple_table_tuple_update", "simple_table_tuple_delete",
}

// SQLState classifies a SQLSTATE, if the unit of a retry is the whole
// transaction.
func SQLState(state string) Fact {
	if len(state) != 5 {
		return Fact{}
	}
	if v, ok := sqlStates[state]; ok {
		return v
	}
	if slices.Contains(finalSQLStates, state) || slices.Contains(finalSQLClasses, state[:2]) {
		return Permanent("sql_" + state)
	}
	return Fact{}
}
