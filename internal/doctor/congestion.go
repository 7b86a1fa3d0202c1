package doctor

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

const (
	congestion = "net.ipv4.tcp_congestion_control"
	allowed    = "net.ipv4.tcp_allowed_congestion_control"
)

// usual are the algorithms that there are good reasons for in a data centre.
var usual = []string{"cubic", "bbr", "dctcp"}

var congestionOdd = Rule{
	Facts: Facts{
		Code:     "congestion-odd",
		Title:    "TCP uses an unusual congestion control",
		Severity: Warning,
		Looks:    "sysctl " + congestion + " of every namespace: neither cubic, bbr nor dctcp, though cubic is available. For reno it is a note",
		Effect:   Impact{"less throughput on long or lossy links; nothing on a clean short one", "bpftune: a clean link did best with dctcp, a lossy one with bbr", "B"},
		Knob:     "tcp.cc", Value: "cubic",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			cc := s.Sysctls[congestion]
			if cc == "" || slices.Contains(usual, cc) || !slices.Contains(strings.Fields(s.Sysctls[allowed]), "cubic") || len(s.Devices) == 0 {
				continue
			}
			f := finding(s, nil, sysctl(congestion, s.Sysctls), sysctl(allowed, s.Sysctls))
			if cc == "reno" {
				f.Severity = Note // of old, and fair
			}
			all = append(all, f)
		}
		return all
	},
}

var congestionDiffers = Rule{
	Facts: Facts{
		Code:     "congestion-differs",
		Title:    "A namespace uses another congestion control than the host",
		Severity: Note,
		Looks:    "sysctl " + congestion + " of every namespace with devices, against that of the host. A namespace copies it when it is created, and keeps it when the host's changes",
		Effect:   Impact{"flows of both share a link unfairly; what was tuned on the host does not apply in the pod", "kernel: a new namespace copies only some settings", "C"},
		Knob:     "tcp.cc",
		Do:       "running pods keep theirs: set it in each, or recreate them",
	},
	Check: func(v *View) (all []Finding) {
		machines := v.Sysctls[congestion]
		for _, s := range v.Netns {
			cc := s.Sysctls[congestion]
			if machines == "" || cc == "" || cc == machines || s.Home || len(s.Devices) == 0 {
				continue
			}
			all = append(all, finding(s, nil, sysctl(congestion, s.Sysctls), Evidence{congestion + " of the machine", machines}))
		}
		return all
	},
}

var bbrWithoutFQ = Rule{
	Facts: Facts{
		Code:     "bbr-without-fq",
		Title:    "TCP uses bbr, and no device paces it",
		Severity: Warning,
		Looks:    "namespaces with " + congestion + " bbr and no queueing discipline fq on their devices. It is a note where the host and all namespaces joined to it do the same",
		Effect:   Impact{"TCP paces with its own timers, which costs CPU; on a clean short link bbr is no gain: 58 to 490 Mbit/s at 10 % loss, but dctcp best on a clean link", "bpftune; ESnet recommends fq", "B"},
		Knob:     "tcp.cc",
		Do:       "or keep bbr, and set the queueing discipline: venturi knob set nic.qdisc fq --dev DEVICE",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			if s.Sysctls[congestion] != "bbr" || len(s.Devices) == 0 || slices.ContainsFunc(s.Devices, paces) {
				continue
			}
			f := finding(s, nil, sysctl(congestion, s.Sysctls), Evidence{"queueing disciplines", disciplines(s)})
			others := v.joined(s)
			f.Value = "reno"
			if slices.Contains(strings.Fields(s.Sysctls[allowed]), "cubic") {
				f.Value = "cubic"
			}
			if len(others) > 0 {
				f.Value = others[0].Sysctls[congestion]
				f.Evidence = append(f.Evidence, Evidence{congestion + " of " + others[0].name(), others[0].Sysctls[congestion]})
			} else {
				f.Severity = Note
			}
			all = append(all, f)
		}
		return all
	},
}

func paces(d host.NetDevice) bool { return d.Qdisc == "fq" || slices.Contains(d.Leaves, "fq") }

func disciplines(s *Netns) string {
	var list []string
	for _, d := range s.Devices {
		if d.Qdisc == "" {
			continue // it is down, or has never been up
		}
		list = append(list, d.Name+": "+strings.Join(append([]string{d.Qdisc}, d.Leaves...), ", "))
	}
	return strings.Join(list, "; ")
}

// joined lists the namespaces at the other ends of a namespace's pairs, and the
// machine's own, that send TCP by another algorithm.
func (v *View) joined(s *Netns) (others []*Netns) {
	differ := func(t *Netns) {
		if t != nil && t.Sysctls[congestion] != "" && t.Sysctls[congestion] != s.Sysctls[congestion] && !slices.Contains(others, t) {
			others = append(others, t)
		}
	}
	for i := range s.Devices {
		there, _ := v.peer(s, &s.Devices[i])
		differ(there)
	}
	differ(v.home())
	return others
}
