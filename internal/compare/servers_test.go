package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// plannedServer notes the plan that it is to serve.
type plannedServer struct {
	name   string
	plan   load.Plan
	meters []string
	shut   map[int]error
	fail   error
	open   int
}

func (p *plannedServer) Serve(_ context.Context, plan load.Plan, meters []string) (map[int]error, error) {
	if p.fail != nil {
		return nil, p.fail
	}
	p.plan, p.meters = plan, meters
	p.open++
	return p.shut, nil
}

func (p *plannedServer) Finish(context.Context, uint64) ([]result.Meter, error) {
	p.open--
	return []result.Meter{{Machine: p.name}}, nil
}

// Each agent gets the arms that it serves, by their ports, and what it says of them comes
// back by their numbers in the plan. Agents without an arm in a series are not asked.
func TestServerGroup(t *testing.T) {
	a, b, idle := &plannedServer{name: "a", shut: map[int]error{1: errors.New("taken")}}, &plannedServer{name: "b", shut: map[int]error{}}, &plannedServer{name: "idle"}
	group := &serverGroup{members: []groupMember{{ServerAgent: a, meters: []string{"tcp"}}, {ServerAgent: b, meters: []string{"cpu"}}, {ServerAgent: idle}},
		agentOf: map[string]int{"host": 1, "pod-local": 0, "host.copy": 1, "late": 0, "other": 2}}
	plan := load.Plan{Token: 7, Schedule: [][]int{{3, 0, 2, 1}, {1, 2, 3, 0}}}
	for i, name := range []string{"host", "pod-local", "host.copy", "late"} {
		plan.Arms = append(plan.Arms, load.Arm{Name: name, ServerPort: 20000 + i})
	}
	shut, err := group.Serve(t.Context(), plan, nil)
	if err != nil || len(shut) != 1 || shut[3] == nil {
		t.Errorf("shut %v, %v, want the arm late", shut, err)
	}
	ports := func(p load.Plan) (all []int) {
		for _, arm := range p.Arms {
			all = append(all, arm.ServerPort)
		}
		return all
	}
	if got := ports(a.plan); !slices.Equal(got, []int{20001, 20003}) || !reflect.DeepEqual(a.plan.Schedule, [][]int{{1, 0}, {0, 1}}) || !slices.Equal(a.meters, []string{"tcp"}) {
		t.Errorf("a serves %v by %v with %v", got, a.plan.Schedule, a.meters)
	}
	if got := ports(b.plan); !slices.Equal(got, []int{20000, 20002}) || !reflect.DeepEqual(b.plan.Schedule, [][]int{{0, 1}, {1, 0}}) {
		t.Errorf("b serves %v by %v", got, b.plan.Schedule)
	}
	meters, err := group.Finish(t.Context(), 7)
	machines := map[string]bool{}
	for _, m := range meters {
		machines[m.Machine] = true
	}
	if err != nil || fmt.Sprint(slices.Sorted(maps.Keys(machines))) != "[a b]" || a.open+b.open+idle.open != 0 {
		t.Errorf("meters of %v, %v", machines, err)
	}
	b.fail = errors.New("gone")
	if _, err := group.Serve(t.Context(), plan, nil); err == nil || a.open != 0 {
		t.Errorf("one failed: %v, and %d series are open at the other", err, a.open)
	}
}
