package compare

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// unplugger stops a container when the second series begins.
type unplugger struct {
	deaf
	t    *testing.T
	stop testenv.Container
}

func (u unplugger) Event(e experiment.Event) {
	if e.Series == 1 && e.Cell == 0 {
		u.stop.Unplug(u.t)
	}
}

// TestAttach measures between containers that no lab built, and goes on with
// the others when one is stopped while the run goes on: by the client's end
// and by the server's.
func TestAttach(t *testing.T) {
	stays, from, to := testenv.Containers(t, 1400), testenv.Containers(t, 1400), testenv.Containers(t, 1400)
	spec := func(c [2]testenv.Container) string {
		return "attach:from=ns:" + c[0].In.Name() + ",to=ns:" + c[1].In.Name()
	}
	for name, c := range map[string]struct {
		containers [2]testenv.Container
		stop       *testenv.Container
	}{
		"stay":         {stays, nil},
		"client stops": {from, &from[0]},
		"server stops": {to, &to[1]},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch = deaf{}
			if c.stop != nil {
				w = unplugger{t: t, stop: *c.stop}
			}
			h := testHost(t, w)
			q := short(t, "udp_lat", "tcp_bw")
			q.Paths = []string{"host", spec(c.containers)}
			rec, _, err := Do(t.Context(), resolve(t, q), h)
			if err != nil {
				t.Fatal(err)
			}
			checkAttached(t, rec, c.stop != nil)
		})
	}
}

// TestAttachShared measures with two clients of one server at once, which each
// path names in another way.
func TestAttachShared(t *testing.T) {
	c := testenv.Containers(t, 1400)
	client, server := c[0].In, c[1].In
	h := testHost(t, deaf{})
	q := short(t, "tcp_lat")
	q.Paths = []string{
		"attach:from=ns:" + client.Name() + ",to=ns:" + server.Name(),
		"attach:from=ns:" + client.Path() + ",to=ns:" + server.Path(),
		"attach:from=ns:" + server.Name() + ",to=ns:" + client.Name(),
	}
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	if rec.End.Reason != result.Complete {
		t.Errorf("end %+v", rec.End)
	}
	for _, s := range rec.Slices {
		if s.Failed != "" {
			t.Fatalf("%s failed: %s", s.Arm, s.Failed)
		}
	}
}

// Where all paths are there already, the first is the baseline and no lab is raised. The
// counters of a fast path that carries one are in the record.
func TestAttachAlone(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan", "vxlan+fast"}})
	spec := func(name string, a lab.Arm) string {
		return "attach:" + name + ",from=ns:" + a.Client().Namespace + ",to=ns:" + a.Server().Namespace
	}
	before, err := netcfg.Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	w := &namespaceWatch{t: t}
	q := short(t, "tcp_lat")
	q.Paths = []string{spec("plain", l.Arms[0]), spec("fast", l.Arms[1])}
	rec, _, err := Do(t.Context(), resolve(t, q), testHost(t, w))
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	if !slices.Equal(w.namespaces, before) {
		t.Errorf("while it measured there were the namespaces %v, before it %v", w.namespaces, before)
	}
	var names []string
	for _, a := range rec.Plan.Arms {
		names = append(names, a.Name)
	}
	if strings.Join(names, " ") != "plain plain.copy fast" || rec.Plan.Arms[0].Role != result.RoleBaseline || rec.Plan.Wire != "" || !rec.Plan.SharedCores {
		t.Errorf("arms %v, wire %q", names, rec.Plan.Wire)
	}
	for _, arm := range names {
		counts := slices.ContainsFunc(rec.Meters, func(m result.Meter) bool { return m.Name == "accel" && m.Arm == arm && len(m.Values) > 0 })
		if counts != (arm == "fast") {
			t.Errorf("there are counters of a fast path of %s: %v", arm, counts)
		}
	}
	if !slices.ContainsFunc(rec.Facts[0].Devices, func(d result.Device) bool { return d.Namespace == "m1/plain" && d.Name == "eth0" }) {
		t.Errorf("the facts lack the pod's device: %+v", rec.Facts[0].Devices)
	}
}

// Of several addresses of ends that are there already, those are taken between which there is a
// route.
func TestAttachAloneChoosesAddresses(t *testing.T) {
	c := testenv.Containers(t, 1500)
	for i, more := range []string{"10.9.0.1/16", "10.7.0.1/24"} { // which the other one has no route to
		testenv.Must(t, c[i].In.AddAddr("lo", netip.MustParsePrefix(more)))
	}
	q := short(t, "tcp_lat")
	q.Paths = []string{"attach:there,from=ns:" + c[0].In.Name() + ",to=ns:" + c[1].In.Name(), "attach:back,from=ns:" + c[1].In.Name() + ",to=ns:" + c[0].In.Name()}
	rec, _, err := Do(t.Context(), resolve(t, q), testHost(t, deaf{}))
	testenv.Must(t, err)
	measured(t, rec)
	for _, arm := range rec.Plan.Arms {
		want := [2]string{c[0].Addr.String(), c[1].Addr.String()}
		if arm.Name == "back" {
			want[0], want[1] = want[1], want[0]
		}
		if got := [2]string{arm.From, arm.To}; got != want {
			t.Errorf("%s is between %v, want %v", arm.Name, got, want)
		}
	}
}

// namespaceWatch notes the namespaces of labs that there are while a run goes on.
type namespaceWatch struct {
	deaf
	t          *testing.T
	namespaces []string
}

func (w *namespaceWatch) Event(e experiment.Event) {
	if e.Series == 1 {
		w.namespaces, _ = netcfg.Namespaces()
	}
}

// checkAttached wants all slices of the host, and of the containers' path
// those until one was stopped, with a warning in every load.
func checkAttached(t *testing.T, rec *result.Record, stopped bool) {
	t.Helper()
	good, failed := map[string]int{}, map[string]int{}
	for _, s := range rec.Slices {
		if s.Failed == "" {
			good[s.Arm]++
		} else {
			failed[s.Arm]++
		}
	}
	const all, first = 2 * 3 * 4, 2 * 4 // loads, series, rounds
	want, fails := all, 0
	if stopped {
		want, fails = first, 2
	}
	// The second series' first load may be over when its event is told.
	if good["host"] != all || failed["host"] != 0 || good["attach"] < want || good["attach"] > want+4 || failed["attach"] != fails {
		t.Errorf("slices %v, failed %v, warnings %+v", good, failed, rec.Warnings)
	}
	if rec.End.Reason != result.Complete {
		t.Errorf("end %+v", rec.End)
	}
	if arm := rec.Plan.Arms[2]; arm.MTU != 1400 || arm.From != "172.17.0.2" || arm.To != "172.17.0.3" {
		t.Errorf("arm %+v", arm)
	}
	for i, f := range rec.Facts {
		if !slices.ContainsFunc(f.Devices, func(d result.Device) bool {
			return d.Namespace == f.Machine+"/attach" && d.Name == "eth0" && d.MTU == 1400
		}) {
			t.Errorf("facts of machine %d lack the container's device: %+v", i, f.Devices)
		}
	}
}
