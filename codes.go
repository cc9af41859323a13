package retry

import (
	"slices"
	"strconv"
	"time"
)

// statusVerdict judges an HTTP status for a request whose method is not known.
// hinted says that the server told when to come back, which turns some
// refusals into invitations.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-15
func statusVerdict(status int, hinted bool) Verdict {
	category := "http_" + strconv.Itoa(status)
	switch status {
	case 429: // RFC 6585 section 4
		return Verdict{Class: RateLimited, NotApplied: true, Category: category}
	case 403: // GitHub's primary and secondary limits
		if hinted {
			return Verdict{Class: RateLimited, NotApplied: true, Category: category}
		}
	case 529: // Anthropic, Cloudflare: overloaded
		return limited(category)
	case 408, 421, 425: // 425: RFC 8470 section 5.2
		return anew(category)
	case 413, 423:
		if hinted {
			return again(category)
		}
	case 503:
		if hinted {
			return anew(category)
		}
		return again(category)
	case 500, 502, 504, 520, 521, 522, 523, 524, 530, 598, 599: // from 520 on: Cloudflare, proxies
		return again(category)
	}
	return final(category)
}

// sqlStates are the codes worth another attempt, where the unit of a retry is
// the whole transaction. PostgreSQL and CockroachDB, and what other databases
// share with them.
//
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var sqlStates = map[string]Verdict{
	"40001": anew("sql_40001"),                                             // serialization_failure
	"CR000": anew("sql_CR000"),                                             // the same in old versions of CockroachDB
	"40P01": anew("sql_40P01"),                                             // deadlock_detected
	"55P03": anew("sql_55P03"),                                             // lock_not_available
	"55006": anew("sql_55006"),                                             // object_in_use
	"25P03": anew("sql_25P03"),                                             // idle_in_transaction_session_timeout
	"25006": anew("sql_25006"),                                             // read_only_sql_transaction: a demoted primary, new connection
	"26000": anew("sql_26000"),                                             // invalid_sql_statement_name: pooled connection, new connection
	"40003": again("sql_40003"),                                            // statement_completion_unknown
	"08007": again("sql_08007"),                                            // transaction_resolution_unknown
	"57P01": again("sql_57P01"),                                            // admin_shutdown
	"57P02": again("sql_57P02"),                                            // crash_shutdown
	"57P05": again("sql_57P05"),                                            // idle_session_timeout
	"57P03": anew("sql_57P03"),                                             // cannot_connect_now
	"53000": anew("sql_53000"),                                             // insufficient_resources
	"53200": anew("sql_53200"),                                             // out_of_memory
	"53400": anew("sql_53400"),                                             // configuration_limit_exceeded
	"08000": again("sql_08000"),                                            // connection_exception
	"08003": again("sql_08003"),                                            // connection_does_not_exist
	"08006": again("sql_08006"),                                            // connection_failure
	"08001": anew("sql_08001"),                                             // sqlclient_unable_to_establish_sqlconnection
	"08004": anew("sql_08004"),                                             // sqlserver_rejected_establishment_of_sqlconnection
	"53300": {Class: RateLimited, NotApplied: true, Category: "sql_53300"}, // too_many_connections
}

// finalSQLStates are exact codes, finalSQLClasses their first two characters.
var (
	finalSQLStates = []string{
		"40000", "40002", // transaction_rollback, integrity constraint at commit
		"57014",          // query_canceled
		"53100",          // disk_full
		"08P01",          // protocol_violation
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

func sqlStateVerdict(state string) Verdict {
	if len(state) != 5 {
		return Verdict{}
	}
	if v, ok := sqlStates[state]; ok {
		return v
	}
	if slices.Contains(finalSQLStates, state) || slices.Contains(finalSQLClasses, state[:2]) {
		return final("sql_" + state)
	}
	return Verdict{}
}

// The error numbers of SQL Server and Azure SQL that are worth another attempt.
// -2, a timeout of the client, is not among them: the operation may have
// completed.
//
// https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues
var (
	// The transaction was rolled back, or never got its lock.
	sqlServerConflicts = []int32{1204, 1205, 1222, 3960, 3966, 41301, 41302, 41305, 41325, 41839}

	sqlServerTransient = []int32{
		615, 921, 952, 988, 40143, 40197, 40540, 40613, 49802, // reconfiguring
		4060, 4221, 17197, 17889, 18401, // login during a failover
		64, 121, 233, 997, 10053, 10054, 10060, 11001, // transport
		8628, 8645, 8651, // waiting for memory or the optimizer
		539, 601, 617, 669, 10922, 42108, 42109,
	}

	sqlServerLimits = []int32{
		10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 40903, 49918, 49919, 49920,
	}
)

func sqlServerVerdict(number int32) Verdict {
	category := "mssql_" + strconv.Itoa(int(number))
	switch {
	case slices.Contains(sqlServerConflicts, number):
		return anew(category)
	case slices.Contains(sqlServerTransient, number):
		return again(category)
	case slices.Contains(sqlServerLimits, number):
		v := limited(category)
		if number == 40501 { // "Retry the request after 10 seconds."
			v.After = 10 * time.Second
		}
		return v
	default:
		return Verdict{}
	}
}

// awsVerdict knows the codes that the AWS SDKs retry, by their exact names.
func awsVerdict(code string) Verdict {
	switch code {
	case "RequestTimeout", "RequestTimeoutException":
		return again("aws_" + code)
	case "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException",
		"PriorRequestNotComplete", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "SlowDown",
		"ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException",
		"TransactionInProgressException":
		return limited("aws_" + code)
	default:
		return Verdict{}
	}
}

// mongoVerdict reads the error labels of a MongoDB server.
//
// https://github.com/mongodb/specifications/tree/master/source/retryable-writes
func mongoVerdict(has func(label string) bool) (v Verdict) {
	switch {
	case has("SystemOverloadedError") && has("RetryableError"):
		v = limited("mongo_overloaded")
	case has("TransientTransactionError"): // the whole transaction
		v = anew("mongo_transaction")
	case has("RetryableWriteError"), has("RetryableError"):
		v = again("mongo_transient")
	case has("UnknownTransactionCommitResult"): // the commit alone
		v = again("mongo_commit")
	default:
		return Verdict{}
	}
	v.NotApplied = v.NotApplied || has("NoWritesPerformed")
	return v
}
