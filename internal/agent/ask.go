package agent

import (
	"context"
	"errors"
	"time"
)

var errUnanswered = errors.New("no answer came")

// mostAnswers is of how many calls at once the answers are not lost.
const mostAnswers = 100

// ask calls an agent, and waits for an answer. Until one comes it calls again, as often as an agent with such a limit
// has to hear its controller, because a line may hold answers up; then it waits for those to all calls, which may not
// pass beside a slice. If limit passes without an answer, it returns [errUnanswered]; if ctx ends, nil.
//
// It counts looks, not time: while this machine is too busy to run the program, or paused, an answer that has come is
// not read, and the agent may be on the same machine.
func ask(ctx context.Context, call func() error, answers <-chan struct{}, limit time.Duration, after func(time.Duration) <-chan time.Time) error {
	look, every := beatEvery/10, beatEvery*(limit/answerBy)
	open, answered := 0, false
	for left, next := limit, time.Duration(0); left > 0; left, next = left-look, next-look {
		if next <= 0 && !answered {
			if err := call(); err != nil {
				return err
			}
			open, next = open+1, every
		}
		select {
		case <-answers:
			if open--; open == 0 {
				return nil
			}
			answered, left = true, limit+look
		case <-ctx.Done():
			return nil
		case <-after(look):
		}
	}
	return errUnanswered
}
