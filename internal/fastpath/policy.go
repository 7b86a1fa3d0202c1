package fastpath

import (
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// betweenEpochs is the least time from one epoch to the next: a stamp holds the
// lower bits of one, and must not be read a thousand later.
const betweenEpochs = 2 * time.Millisecond

// policy is the epoch of policy. It is raised by whoever hears that packets may be
// judged otherwise, in whatever goroutine that is, and never lowered.
type policy struct {
	fast *bpf.Fast

	mu     sync.Mutex
	epoch  uint32
	raised time.Time // when that was, last
}

func newPolicy(fast *bpf.Fast) (*policy, error) {
	p := &policy{fast: fast}
	return p, fast.Epoch.Get(&p.epoch)
}

// raise ends what was learned until now.
func (p *policy) raise() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := betweenEpochs - time.Since(p.raised); wait > 0 {
		time.Sleep(wait)
	}
	p.raised = time.Now()
	p.epoch++
	if p.epoch == 0 {
		p.epoch++ // of no flow
	}
	return p.fast.Epoch.Set(p.epoch)
}
