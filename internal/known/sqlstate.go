package known

import "slices"

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
	"08P01": Transient("sql_08P01"), // protocol_violation, and what PgBouncer says; retrysql tells them apart
	"58C00": Transient("sql_58C00"), // CockroachDB: a range is unavailable
	"58C01": Transient("sql_58C01"), // CockroachDB: no connection between its nodes
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
		"3D000", "XX000", // invalid_catalog_name, internal_error
	}
	finalSQLClasses = []string{
		"0A", // feature_not_supported
		"22", // data_exception
		"23", // integrity_constraint_violation
		"28", // invalid_authorization_specification
		"42", // syntax_error_or_access_rule_violation
	}
)

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
