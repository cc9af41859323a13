package known

// AWS classifies a code of AWS: the codes that the AWS SDKs retry, by their
// exact names.
func AWS(code string) Fact {
	switch code {
	case "RequestTimeout", "RequestTimeoutException":
		return Transient("aws_" + code)
	case "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException",
		"PriorRequestNotComplete", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "SlowDown",
		"ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException",
		"TransactionInProgressException":
		return Throttled("aws_" + code)
	default:
		return Fact{}
	}
}
