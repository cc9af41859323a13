package known

import (
	"slices"
	"strconv"
	"time"
)

// The error numbers of SQL Server and Azure SQL that are worth another attempt.
// -2, a timeout of the client, is not among them: the operation may have
// completed.
//
// https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues,
// https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
var (
	// The transaction was rolled back, or never got its lock.
	sqlServerConflicts = []int32{1204, 1205, 1222, 3960, 3961, 3966, 41301, 41302, 41305, 41325, 41839}

	sqlServerTransient = []int32{
		1807,                     // a database that is copied, such as model, is in use
		976, 978, 982, 983, 3906, // an Always On replica that is not the primary, a read-only database: new connection
		596, 3303, 3948, 6005, // a session that was killed, a commit without its replica, a changed role, a shutdown
		904, 913, 922, 955, 956, // starting, recovering, without a partner or a quorum
		615, 921, 952, 988, 40143, 40197, 40540, 40613, 49802, // reconfiguring
		4060, 4221, 17197, 17889, 18401, // login during a failover
		64, 121, 233, 997, 10053, 10054, 10060, 11001, // transport
		701, 8628, 8645, 8651, // waiting for memory or the optimizer
		539, 601, 617, 669, 10922, 42108, 42109,
	}

	// Names, keys, data, permissions, logins, full disks and quotas.
	sqlServerFinals = []int32{
		102, 137, 156, 201, 207, 208, 213, 229, 230, 241, 242, 245, 262, 297, 300, 334, 515, 544, 547, 916, 1105, 2601,
		2627, 2628, 2714, 2812, 3701, 4104, 8114, 8115, 8134, 8152, 8178, 9002, 15151, 18452, 18456, 18486, 18488, 40544,
		40615, 40914, // an address that the firewall does not let in
		42119, // the free amount of the month is used up
	}

	sqlServerLimits = []int32{
		10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 40903, 49918, 49919, 49920,
	}
)

// SQLServer classifies an error number.
func SQLServer(number int32) Fact {
	category := "mssql_" + strconv.Itoa(int(number))
	switch {
	case slices.Contains(sqlServerConflicts, number):
		return Unapplied(category)
	case slices.Contains(sqlServerTransient, number):
		return Transient(category)
	case slices.Contains(sqlServerFinals, number):
		return Permanent(category)
	case slices.Contains(sqlServerLimits, number):
		v := Throttled(category)
		if number == 40501 { // "Retry the request after 10 seconds."
			v.After = 10 * time.Second
		}
		return v
	default:
		return Fact{}
	}
}
