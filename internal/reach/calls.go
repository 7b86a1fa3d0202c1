package reach

import (
	"context"
	"sync"

	"github.com/venturi-net/venturi/internal/agent"
)

// Names of the calls by which a controller has an agent take part in trials.
const (
	CallListen = "reach.listen" // Trials -> []int, the ports of the trials
	CallDial   = "reach.dial"   // Trials -> []string, why a trial got no answer; empty: it got one
	CallHeard  = "reach.heard"  // nothing -> []bool, whose first message arrived; ends the listeners
)

// Trials is what an agent is to try.
type Trials struct {
	Trials []Trial `json:"trials"`
	Secret Secret  `json:"secret"`
}

// Listeners are those of an agent.
type Listeners struct {
	mu   sync.Mutex
	open []*listener
}

// Calls are those that a controller can make, by their names.
func (l *Listeners) Calls() map[string]func(context.Context, []byte) ([]byte, error) {
	return map[string]func(context.Context, []byte) ([]byte, error){
		CallListen: agent.JSONCall(l.listen),
		CallDial:   agent.JSONCall(dialAll),
		CallHeard:  agent.JSONCall(func(context.Context, struct{}) ([]bool, error) { return l.close(), nil }),
	}
}

func (l *Listeners) listen(_ context.Context, r Trials) (ports []int, err error) {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range r.Trials {
		opened, err := listen(t, r.Secret)
		if err != nil {
			return nil, err
		}
		l.open, ports = append(l.open, opened), append(ports, opened.port)
	}
	return ports, nil
}

// dialAll tries all at once.
func dialAll(ctx context.Context, r Trials) ([]string, error) {
	failed := make([]string, len(r.Trials))
	var trying sync.WaitGroup
	for i, t := range r.Trials {
		trying.Go(func() {
			if err := dial(ctx, t, r.Secret); err != nil {
				failed[i] = err.Error()
			}
		})
	}
	trying.Wait()
	return failed, ctx.Err()
}

// close ends the listeners, and tells whose first message arrived.
func (l *Listeners) close() (heard []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.open {
		heard = append(heard, one.wasHeard())
		_ = one.socket.Close()
	}
	l.open = nil
	return heard
}
