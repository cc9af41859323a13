package sqltable

// ClaimOfAny is a claim that ClaimWhere does not restrict.
func (s *Statements) ClaimOfAny() *Pick {
	if s.ClaimWhere == "" {
		return s.Claim
	}
	t := *s.Table
	t.ClaimWhere = "(" + t.ClaimWhere + ") OR TRUE" // so that it has its parameters
	return t.builder().claim()
}

// ChecksAtOnce has constraints checked in the transaction that are deferred, or is "" where none are.
func (t *Table) ChecksAtOnce() string {
	if t.Dialect != PostgreSQL {
		return ""
	}
	return "SET CONSTRAINTS ALL IMMEDIATE"
}
