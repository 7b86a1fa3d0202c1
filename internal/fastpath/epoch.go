package fastpath

import (
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// minEpochInterval is the least time between epochs. A stamp holds the lower bits of an
// epoch, which must not come round again while a packet is under way.
const minEpochInterval = 2 * time.Millisecond

// epoch is the policy epoch. Any goroutine bumps it when it learns that the network may treat
// packets differently from now on.
type epoch struct {
	objs *bpf.Objects

	mu     sync.Mutex
	value  uint32
	bumped time.Time // time of the last bump
}

func newEpoch(fast *bpf.Objects) (*epoch, error) {
	p := &epoch{objs: fast}
	return p, fast.Epoch.Get(&p.value)
}

// bump invalidates everything that was learned until now.
func (p *epoch) bump() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := minEpochInterval - time.Since(p.bumped); wait > 0 {
		time.Sleep(wait)
	}
	p.bumped = time.Now()
	p.value++
	if p.value == 0 {
		p.value++ // 0 means none
	}
	return p.objs.Epoch.Set(p.value)
}
