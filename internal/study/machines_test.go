package study

import "testing"

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
