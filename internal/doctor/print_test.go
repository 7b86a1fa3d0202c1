package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
)

// sick has three faults, one of them at seven places.
func sick() *Report {
	r := healthy()
	r.eth0.MTU = 1440
	switchOff(r.vx, txChecksum)
	for i := range 7 {
		d := device(20+i, "pod"+string(rune('a'+i)), "veth", 1450)
		switchOff(&d, tsoFeature)
		r.home.Devices = append(r.home.Devices, d)
	}
	r.cpu(1, func(c *host.CPUCounters) { c.Steal += 20 })
	return Judge(r.View, Options{})
}

const printed = `ERROR
  mtu-pair  The two ends of a veth pair have different MTUs
    at      pod1 in the machine's own namespace
    read    MTU of pod1 in the machine's own namespace: 1450
    read    MTU of eth0 in shop: 1440
    fix     venturi knob set nic.mtu 1440 --dev pod1
    effect  what the larger end sends beyond the smaller MTU is silently dropped (kernel: a veth drops what its other end would not accept; mismatches of pods in Calico issues 8868 and 5575; grade B)

WARNING
  tunnel-checksum-off  A tunnel computes checksums in software, and so cannot pass on large packets
    at      vx in the machine's own namespace
    read    ethtool features of vx: tx-checksum-ip-generic: off
    fix     venturi knob set virt.tx_csum on --dev vx
    effect  a significant loss where the card below works: each packet is segmented and checksummed before the tunnel (Kube-OVN FAQ; for the opposite see tunnel-checksum-errors; grade B)
    note    somebody may have switched it off because the card below breaks checksums (Calico does): after the change, check whether retransmissions grow

  segmentation-off  Large TCP packets are cut too early
    at      poda in the machine's own namespace
    read    ethtool features of poda: tx-tcp-segmentation: off
    fix     venturi knob set nic.seg tso=on --dev poda
`

// A person sees the worst first, each code once, and not the same thing a hundred times.
func TestPrint(t *testing.T) {
	var b strings.Builder
	if err := Print(&b, sick()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, printed) {
		t.Errorf("printed:\n%s\nwant it to begin with:\n%s", text, printed)
	}
	for _, want := range []string{"    and at 2 places more (see all with --json)\n", "NOTE\n  steal  ",
		"1 error, 8 warnings, 1 note. Looked at 15 devices of 3 network namespaces by ", " at counters twice within 2.0 s; changed nothing.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

const asJSON = `{"code":"mtu-pair","severity":"error","title":"The two ends of a veth pair have different MTUs","device":"pod1","place":"pod1 in the machine's own namespace",` +
	`"evidence":[{"read":"MTU of pod1 in the machine's own namespace","value":"1450"},{"read":"MTU of eth0 in shop","value":"1440"}],` +
	`"effect":{"size":"what the larger end sends beyond the smaller MTU is silently dropped","source":"kernel: a veth drops what its other end would not accept; mismatches of pods in Calico issues 8868 and 5575","grade":"B"},` +
	`"knob":"nic.mtu","value":"1440","fix":"venturi knob set nic.mtu 1440 --dev pod1"}`

// Programs read the JSON: its keys do not change.
func TestJSON(t *testing.T) {
	r := sick()
	text, err := json.Marshal(r.Findings[0])
	if err != nil || string(text) != asJSON {
		t.Errorf("%s (%v), want\n%s", text, err, asJSON)
	}
	if r.Version != reportVersion || r.Coverage.Seconds != 2 || r.Worst() != Error {
		t.Errorf("report %+v", r)
	}
	if text, _ := json.Marshal(Judge(healthy().View, Options{})); !strings.Contains(string(text), `"findings":[]`) {
		t.Errorf("without findings: %s", text)
	}
}
