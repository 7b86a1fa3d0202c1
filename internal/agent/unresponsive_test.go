package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
)

// silent gives a socket behind which somebody takes connections and never says
// anything.
func silent(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(testenv.SocketFolder(t), "s")
	l, err := net.Listen("unix", socket)
	if err == nil {
		err = os.Chmod(socket, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return socket
}

// unclosing are passive ends that do not close before they are let go.
type unclosing struct{ letGo chan struct{} }

func (s unclosing) Close() error              { <-s.letGo; return nil }
func (s unclosing) FailedArms() map[int]error { return nil }
func (s unclosing) Refused() int64            { return 0 }

// TestGuestsHang: virtual machines that do not answer cost their own arms, with
// the reason, whenever they begin to; the other arms' meters come home.
func TestGuestsHang(t *testing.T) {
	agent.ShortGuestCall(t, 300*time.Millisecond)
	agent.ShortGrace(t)
	ends := unclosing{make(chan struct{})}
	_, late := start(t, agent.Engine{Serve: func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
		return ends, nil
	}})
	t.Cleanup(func() { close(ends.letGo) }) // before the agent ends
	far, _ := start(t, agent.Engine{})
	near, _ := spawn(t, "agent")

	p := ring{serverGuest: silent(t), clientGuest: silent(t)}.plan("udp_lat", 2)
	to := &p.Arms[1].Ends[0] // hangs at the end only
	to.From.Agent, to.To.Agent = "", late
	begin := time.Now()
	shut, err := far.Serve(t.Context(), p, []string{"udp"})
	if err != nil || len(shut) != 1 || shut[3] == nil || !strings.Contains(shut[3].Error(), "in the virtual machine: ") || !strings.Contains(shut[3].Error(), "did not answer in time") {
		t.Fatal(err, shut)
	}
	p.Schedule = [][]int{{0}, {0}}
	if _, _, err := near.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	meters, err := far.Finish(t.Context(), p.Token)
	if err == nil || !strings.Contains(err.Error(), "b: in the virtual machine: its agent does not answer") {
		t.Errorf("the end of the series: %v", err)
	}
	found := false
	for _, m := range meters {
		found = found || m.Arm == "a" && m.Name == "udp" && m.Values["udp/in_datagrams"] > 0
	}
	if !found {
		t.Errorf("meters of the arm that is well: %+v", meters)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
