package study

import "testing"

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
