package compare

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/reach"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// newReachAgent is an agent in this process that takes part in trials.
func newReachAgent(t *testing.T, name string) *agent.Client {
	t.Helper()
	return agenttest.Start(t, agent.Options{Machine: name, Calls: new(reach.Listeners).Calls()})
}

// sayText keeps what is said.
type sayText struct {
	deaf
	text string
}

func (s *sayText) Say(format string, args ...any) { s.text += fmt.Sprintf(format, args...) + "\n" }

// A server's end that cannot be opened is named. It ends the run where all others are compared
// with it, and else costs its path alone.
func TestNoListener(t *testing.T) {
	b := &remoteTestbed{agents: agents{newReachAgent(t, "a"), newReachAgent(t, "b")}}
	end := func(addr string) host.Endpoint { return host.Endpoint{Addr: netip.MustParseAddr(addr)} }
	const want = "cannot receive TCP on machine b by path foreign: no port can be opened at 192.0.2.77 ("
	for _, c := range []struct {
		order []string
		ends  bool
	}{{[]string{"own", "foreign"}, false}, {[]string{"foreign", "own"}, true}} {
		watch := &sayText{}
		s := &Session{host: Host{Watch: watch}, machines: []testMachine{{name: "a"}, {name: "b"}}}
		r := &Resolved{pairs: []pair{firstPair, firstPair}, plan: result.Plan{Cells: []result.Cell{{Load: "tcp_lat"}}}}
		for _, name := range c.order {
			to := map[string]string{"own": "127.0.0.2", "foreign": "192.0.2.77"}[name]
			s.paths = append(s.paths, newTestPath(result.Arm{Name: name}, path.Ends{{end("127.0.0.1")}, {end(to)}}))
		}
		err := b.checkReach(t.Context(), r, s)
		switch {
		case !c.ends && (err != nil || !strings.Contains(watch.text, want)):
			t.Errorf("%v: %v, said %q", c.order, err, watch.text)
		case c.ends && (verr.Code(err) != verr.Failed || !strings.Contains(err.Error(), want)):
			t.Errorf("%v: %v", c.order, err)
		}
	}
}
