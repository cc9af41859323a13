package known

import (
	"slices"
	"strconv"
)

// The error codes of Kafka that its protocol calls retriable, and those about the request
// itself. What else is not retriable is for the client of a group or a transaction.
//
// https://kafka.apache.org/protocol#protocol_error_codes
var (
	kafkaTransient = []int64{2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 100, 103, 106, 133}
	kafkaFinal     = []int64{10, 17, 18, 21, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 42, 43, 44, 53, 54, 58, 87}
)

const kafkaThrottled = 89

// librdkafka classifies the codes of Kafka and, below 0, those of librdkafka itself.
//
// https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka.h
func librdkafka(code int64) Fact {
	switch category := "kafka_" + strconv.FormatInt(code, 10); code {
	case -195, -193, -192, -187, -185, -166: // the network, a lookup, timeouts, no broker
		return Transient(category)
	case -184: // the local queue is full
		return Unapplied(category)
	default:
		return kafka(code)
	}
}

func kafka(code int64) Fact {
	switch category := "kafka_" + strconv.FormatInt(code, 10); {
	case code == kafkaThrottled:
		return Throttled(category)
	case slices.Contains(kafkaTransient, code):
		return Transient(category)
	case slices.Contains(kafkaFinal, code):
		return Permanent(category)
	default:
		return Fact{}
	}
}
