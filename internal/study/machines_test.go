package study

import (
	"strings"
	"testing"
	"time"
)

// The cores of a lab's machines are none of real ones.
func TestCoresOnMachines(t *testing.T) {
	s, err := Parse("good.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if q := s.OnMachines().Requests()[0]; q.Cores != "" {
		t.Errorf("cores %q", q.Cores)
	}
}

// On real machines a study is one comparison with all of its paths, and its tables show it.
func TestOnMachines(t *testing.T) {
	for _, name := range Names() {
		s, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		real := s.OnMachines()
		requests := real.Requests()
		if len(requests) != 1 || len(requests[0].Paths) != len(s.Paths) || requests[0].Wire != "" || requests[0].Budget != s.Budget {
			t.Errorf("%s: %+v", name, requests)
		}
		for _, table := range real.Tables {
			if len(table.Wires) > 1 || len(table.Wires) == 1 && table.Wires[0] != RealWire {
				t.Errorf("%s: table %s goes by wires %v", name, table.Title, table.Wires)
			}
		}
	}
}

// On an emulated CPU a study has the time that it needs there, if it says it, and neither loads that
// are left out there nor their figures.
func TestOnEmulatedCPU(t *testing.T) {
	s, err := Parse("good.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.OnEmulatedCPU(); got.Budget != 40*time.Minute || s.Budget != 10*time.Minute {
		t.Errorf("a budget of %v, and of %v elsewhere", got.Budget, s.Budget)
	}
	slow := s.OnEmulatedCPU()
	if cells := slow.Requests()[0].Cells; len(cells) != 2 || len(slow.Tables) != 2 || len(s.Loads) != 3 || len(s.Tables) != 3 {
		t.Errorf("it measures %+v, and shows %+v", cells, slow.Tables)
	}
	var out strings.Builder
	if err := s.Explain(&out); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"budget 10m; 40m on an emulated CPU", "answers of 16384 bytes  not on an emulated CPU\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing: %s", want, &out)
		}
	}
	s.EmulatedBudget = 0
	if got := s.OnEmulatedCPU(); got.Budget != 10*time.Minute {
		t.Errorf("without a time for it, a budget of %v", got.Budget)
	}
}
