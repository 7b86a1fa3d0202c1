package reach

import (
	"context"
	"sync"

	"github.com/venturi-net/venturi/internal/agent"
)

// Names of the calls by which a controller has an agent take part in trials.
const (
	CallListen = "reach.listen" // Trials -> []Listening, of each trial
	CallDial   = "reach.dial"   // Trials -> []string, why a trial got no answer; empty: it got one
	CallHeard  = "reach.heard"  // nothing -> []bool, whose first message arrived; ends the listeners
)

// Trials is what an agent is to try.
type Trials struct {
	Trials []Trial `json:"trials"`
	Secret Secret  `json:"secret"`
}

// Listening is what came of the listener of a trial: its port, or why it could not be opened.
type Listening struct {
	Port   int    `json:"port"`
	Failed string `json:"failed,omitempty"`
}

// Listeners are those of an agent.
type Listeners struct {
	mu   sync.Mutex
	open []*listener // by trial; nil: it could not be opened
}

// Calls are those that a controller can make, by their names.
func (l *Listeners) Calls() map[string]func(context.Context, []byte) ([]byte, error) {
	return map[string]func(context.Context, []byte) ([]byte, error){
		CallListen: agent.JSONCall(l.listen),
		CallDial:   agent.JSONCall(dialAll),
		CallHeard:  agent.JSONCall(func(context.Context, struct{}) ([]bool, error) { return l.close(), nil }),
	}
}

func (l *Listeners) listen(_ context.Context, r Trials) (all []Listening, err error) {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	ports := newPorts(r.Secret)
	for _, t := range r.Trials {
		opened, err := listen(t, r.Secret, ports)
		if err != nil {
			l.open, all = append(l.open, nil), append(all, Listening{Failed: err.Error()})
			continue
		}
		l.open, all = append(l.open, opened), append(all, Listening{Port: int(opened.address.Port())})
	}
	return all, nil
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
		heard = append(heard, one != nil && one.wasHeard())
		if one != nil {
			_ = one.socket.Close()
		}
	}
	l.open = nil
	return heard
}
