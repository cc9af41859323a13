package retrykafka_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestCrash kills worker processes at random moments. The brokers are in the process of
// the test, which lives. The topic has as many partitions as workers, so that each has one
// record under way.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := openWith(t, 2, 1)
			return q, q.address
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, address: address, topics: []string{"kind-1"}, instance: instance(os.Getpid())}
		},
		Died: func(q enginetest.Queue, pids []int, _ []string) error {
			return q.(*queue).leave(instance(pids[len(pids)-1])) //nolint:forcetypeassert // see Open
		},
	}
	crash.Run(t)
}

func instance(pid int) string { return fmt.Sprintf("worker-%d", pid) }

// leave has a worker leave the group that has died. The group would find that after its
// session timeout.
func (q *queue) leave(instance string) error {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = "workers"
	member := kmsg.NewLeaveGroupRequestMember()
	member.InstanceID = &instance
	request.Members = append(request.Members, member)
	response, err := request.RequestWith(q.t.Context(), q.client)
	if err != nil {
		return err
	}
	if response.ErrorCode == kerr.GroupIDNotFound.Code { // with its last member, it had gone by itself
		return nil
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return err
	}
	for _, m := range response.Members {
		if m.ErrorCode != kerr.UnknownMemberID.Code { // it died before it joined
			return kerr.ErrorForCode(m.ErrorCode)
		}
	}
	return nil
}
