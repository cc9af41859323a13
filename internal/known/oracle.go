package known

import (
	"slices"
	"strconv"
)

// The error numbers of Oracle that are worth another attempt, and those that it cannot help.
//
// https://docs.oracle.com/error-help/db/
var (
	// The statement or the transaction was rolled back, or never got its lock or its session.
	oracleUnapplied = []int64{
		54, 60, 104, 8177, 30006, 4020, 4021, 4061, 4065, 4068, // locked, deadlock, serialization, a replaced package
		18, 20, 1033, 1034, 1089, 1090, 1109, // too many sessions or processes, starting, stopping, not open
		12514, 12516, 12518, 12519, 12520, 12521, 12526, 12527, 12528, 12541, // the listener
		24761, 25402, // rolled back
	}
	oracleTransient = []int64{
		28, 1012, 3113, 3114, 3135, 12170, 12537, 12543, 12547, 12571, // a session that was killed, a lost connection
		51, 1555, 2049, 2396, 12805, // a snapshot that is too old, idle for too long, a distributed lock
		25408, 25409, // a failover
	}
	oracleFinal = []int64{
		1, 900, 904, 907, 911, 913, 917, 918, 921, 922, 923, 928, 932, 933, 936, 942, 955, 972, 979, 1000, 1004, 1005,
		1008, 1017, 1031, 1036, 1400, 1401, 1403, 1407, 1422, 1427, 1438, 1476, 1722, 1830, 1841, 1858, 1861, 2289,
		2290, 2291, 2292, 2303, 4091, 4098, 4043, 6502, 6550, 12154, 12504, 12505, 12899, 28000, 28001, 1536, 1653,
		1654, 1688,
	}
)

// Oracle classifies an error number, the part after ORA-.
func Oracle(number int64) Fact {
	category := "ora_" + strconv.FormatInt(number, 10)
	switch {
	case slices.Contains(oracleUnapplied, number):
		return Unapplied(category)
	case slices.Contains(oracleTransient, number):
		return Transient(category)
	case slices.Contains(oracleFinal, number):
		return Permanent(category)
	default:
		return Fact{}
	}
}
