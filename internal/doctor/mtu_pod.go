package doctor

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
)

var mtuPodAbove = Rule{
	Facts: Facts{
		Code:     "mtu-pod-above-tunnel",
		Title:    "A pod's MTU is larger than that of the tunnel it is routed into",
		Severity: Warning,
		Looks:    "the devices of pods in a namespace that forwards, against its tunnels that routes with a next hop lead to; a note if such routes also bypass the tunnels",
		Effect:   Impact{"each new connection first loses a full packet, and then learns the MTU; UDP is fragmented; where the ICMP message is filtered, connections hang", "Calico issue 5575", "B"},
		Knob:     "nic.mtu",
	},
	Check: func(v *View) []Finding {
		return eachPod(v, func(s *Netns, pod, tunnel *host.NetDevice) bool { return pod.MTU > tunnel.MTU })
	},
}

// farBelow is the share of the tunnel's MTU below which a pod's is a waste.
const farBelow = 0.6

var mtuPodBelow = Rule{
	Facts: Facts{
		Code:     "mtu-pod-below-tunnel",
		Title:    "A pod's MTU is far below what its tunnel can carry",
		Severity: Warning,
		Looks:    "the devices of pods in a namespace that forwards, below 60 % of the MTU of its tunnels that routes with a next hop lead to; a note if such routes also bypass the tunnels",
		Effect:   Impact{"10 to 30 % of throughput, like other gains from jumbo frames", "pods with MTU 1500 below 8950 in Calico issue 8868; the size from recipes without a method", "C"},
		Knob:     "nic.mtu",
		Do:       "pods keep the MTU that they were created with: change what creates them",
	},
	Check: func(v *View) []Finding {
		return eachPod(v, func(s *Netns, pod, tunnel *host.NetDevice) bool {
			return float64(pod.MTU) < farBelow*float64(tunnel.MTU)
		})
	},
}

// eachPod finds the pods of which off holds, with a tunnel of their machine. It
// is a note where routes with a next hop lead round the tunnels too: nobody knows
// which of them the pod's packets take.
func eachPod(v *View, off func(s *Netns, pod, tunnel *host.NetDevice) bool) []Finding {
	return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
		there, pod := v.peer(s, d)
		if pod == nil || !pod.Up || there == s || !s.forwards() || s.underlies(d) || slices.ContainsFunc(there.Devices, isTunnel) {
			return nil
		}
		for i := range s.Devices {
			t := &s.Devices[i]
			if !isTunnel(*t) || t.Tunnel.Shared || t.Gateways == 0 || !t.Up || t.Master != 0 && t.Master == d.Master || !off(s, pod, t) {
				continue
			}
			f := finding(there, pod, mtuOf(there, pod), mtuOf(s, t), Evidence{"other end of " + pod.Name, d.Name + " in " + s.name()})
			f.Value = fmt.Sprint(t.MTU)
			for _, direct := range s.Devices {
				if !isTunnel(direct) && direct.Gateways > 0 {
					f.Severity = Note
					f.Evidence = append(f.Evidence, Evidence{"routes of " + s.name(), fmt.Sprintf("%d by %s, %d by %s", t.Gateways, t.Name, direct.Gateways, direct.Name)})
				}
			}
			return []Finding{f}
		}
		return nil
	})
}

func isTunnel(d host.NetDevice) bool { return d.Tunnel != nil }

// underlies tells whether a tunnel sends by a device.
func (s *Netns) underlies(d *host.NetDevice) bool { return s.tunnelCarriers()[d.Index] != nil }

var mtuPeer = Rule{
	Facts: Facts{
		Code:     "mtu-peer",
		Title:    "The path to a peer has a smaller MTU than its device",
		Severity: Note,
		Looks:    "the route to each --peer: its MTU is below that of the device, because a router reported it or the route has one",
		Effect:   Impact{"smaller packets than the device could send; losses until the path MTU is known", "kernel: path MTU discovery", "C"},
		Do:       "if the path should carry more, find the device with the smaller MTU on it: ping -M do -s SIZE",
	},
	Check: func(v *View) (all []Finding) {
		for _, w := range v.Routes {
			if w.MTU >= w.DeviceMTU {
				continue
			}
			all = append(all, finding(w.Netns, nil,
				Evidence{"route to " + w.Peer, fmt.Sprintf("MTU %d by %s", w.MTU, w.Device)},
				Evidence{"MTU of " + w.Device, fmt.Sprint(w.DeviceMTU)}))
		}
		return all
	},
}
