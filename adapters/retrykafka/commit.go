package retrykafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry/retryjob"
)

const (
	commitTime = 15 * time.Second
	renewAfter = 10 // commits in a row that the broker refused because it does not know the partition
)

var errNoAnswer = errors.New("the broker has not answered for the partition")

// wake starts a commit of what has changed.
func (w *worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// commitChanges commits what has changed, until life ends.
func (w *worker) commitChanges() {
	for {
		select {
		case <-w.changed:
			w.flush()
		case <-w.life.Done():
			return
		}
	}
}

// flush begins what can begin, commits, and then starts the attempts that have begun. All
// that happens during a commit is in the next one.
func (w *worker) flush() {
	w.commits.Lock()
	of, problems, told := map[topicPartition]*partition{}, []error(nil), []*retryjob.Stored(nil)
	w.mu.Lock()
	for at, p := range w.partitions {
		if time.Until(p.again) > 0 {
			continue
		}
		if err := p.begin(); err != nil {
			problems = append(problems, err)
		}
		if p.dirty {
			of[at], p.dirty = p, false
			p.offset, p.metadata = p.progress().commit()
			p.stored, p.outcomes = append(p.stored, p.outcomes...), nil
		}
	}
	w.mu.Unlock()
	if len(of) > 0 {
		answers := w.commit(of)
		w.mu.Lock()
		for at, p := range of {
			told = append(told, p.committed(answers[at])...)
		}
		w.mu.Unlock()
		problems = append(problems, refusals(answers)...)
	}
	w.commits.Unlock()
	for _, s := range told {
		if err := s.Tell(w.ctx); err != nil {
			problems = append(problems, err)
		}
	}
	for _, err := range problems {
		w.failed(err)
	}
}

// refusals returns each error among the answers once.
func refusals(answers map[topicPartition]error) (problems []error) {
	refused := map[string][]topicPartition{}
	for at, err := range answers {
		if err != nil {
			refused[err.Error()] = append(refused[err.Error()], at)
		}
	}
	for _, all := range refused {
		problems = append(problems, fmt.Errorf("commit of %d partitions, %v among them: %w", len(all), all[0], answers[all[0]]))
	}
	return problems
}

// commit commits the offsets of partitions, and returns what was answered for each. If the
// group has expelled this worker, and the commit is the first to learn it, the client joins
// again as another member. It would then commit old offsets, perhaps of a partition that it has
// lost. So that is refused.
func (w *worker) commit(of map[topicPartition]*partition) map[topicPartition]error {
	offsets, answers := map[string]map[int32]kgo.EpochOffset{}, map[topicPartition]error{}
	for at, p := range of {
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: p.offset}
	}
	ctx, cancel := context.WithTimeout(w.life, commitTime)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, t := range request.Topics {
			for i := range t.Partitions {
				p := of[topicPartition{t.Topic, t.Partitions[i].Partition}]
				if p.member != request.MemberID {
					return errExpelled
				}
				t.Partitions[i].Metadata = &p.metadata
			}
		}
		return nil
	})
	w.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, failed error,
	) {
		failed = cmp.Or(failed, errNoAnswer)
		for at := range of {
			answers[at] = failed
		}
		if response == nil {
			return
		}
		names := map[[16]byte]string{}
		for _, t := range request.Topics {
			names[t.TopicID] = t.Topic
		}
		for _, t := range response.Topics {
			for _, p := range t.Partitions {
				answers[topicPartition{cmp.Or(t.Topic, names[t.TopicID]), p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
			}
		}
	})
	return answers
}

// committed ends a commit, and returns the outcomes that it has stored. The attempts that it
// begins start, unless it has failed.
func (p *partition) committed(err error) (stored []*retryjob.Stored) {
	for _, j := range p.begun {
		if err != nil || p.ctx.Err() != nil {
			j.running, p.dirty = false, true
			continue
		}
		p.attempts.Go(j.attempt)
	}
	p.begun = nil
	if err == nil {
		p.refused = 0
		stored, p.stored = p.stored, nil
		return stored
	}
	p.refused++
	p.dirty, p.again = true, time.Now().Add(pause)
	time.AfterFunc(pause, p.wake)
	gone := errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
	if gone && p.refused%renewAfter == 0 {
		p.renew(p.at.topic)
	}
	return nil
}
