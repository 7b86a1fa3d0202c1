package compare

import (
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// checkCores refuses cores of machines that no lab raises.
func (q Request) checkCores(cores lab.Cores) error {
	if cores == nil || !q.onOtherMachines() && !q.foundHere() {
		return nil
	}
	return verr.New(verr.Usage, "cannot compare with --cores", "--cores confines the machines of a lab, and this run has no lab",
		"leave it out; the machines file names the cores of real machines")
}

// confine pins the ends of the traffic to cores of their machines, and lets each machine have a
// CPU figure of its own.
func (r *Resolved) confine(cores lab.Cores) {
	if cores == nil {
		return
	}
	r.plan.Cores, r.plan.SharedCores = cores, false
	for machine, cpu := range map[string]*int{"m1": &r.plan.ClientCPU, "m2": &r.plan.ServerCPU} {
		if of := cores[machine]; len(of) > 0 { // else the lab refuses it
			*cpu = of[0]
		}
	}
}

// unconfined warns of what runs elsewhere than on its machine's cores.
func (s *Session) unconfined() (out []result.Warning) {
	if s.lab == nil {
		return nil
	}
	for _, what := range s.lab.Unconfined {
		out = append(out, result.Warning{Code: "unconfined", Text: "not confined to its machine's cores: " + what})
	}
	return out
}
