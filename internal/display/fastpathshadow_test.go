package display

import (
	"bytes"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/shadow"
)

// Before anything is carried, it says how many packets and flows were compared, or that there were none.
func TestPrintCompared(t *testing.T) {
	for want, r := range map[string]shadow.Result{
		"venturi: compared 201 IPv6 packets of 3 flows with the network's own: all are equal\n":                                                   {Flows: 3, Out: shadow.PacketCount{Equal: 120, Changed: 1}, In: shadow.PacketCount{Equal: 81}},
		"venturi: compared 9 IPv6 packets of 2 flows with the network's own: it did not forward 1, all others are equal\n":                        {Flows: 2, Out: shadow.PacketCount{Equal: 8, NotForwarded: 1}},
		"venturi: compared 2 IPv6 packets of 0 flows with the network's own: it did not forward 2, all others are equal; inconclusive flows: 1\n": {Inconclusive: 1, Out: shadow.PacketCount{NotForwarded: 2}},
		"venturi: no IPv6 packets were compared: no flow that would be carried was seen in time (see --shadow-time)\n":                            {In: shadow.PacketCount{Missed: 1}},
	} {
		var out bytes.Buffer
		if PrintCompared(&out, "IPv6", r); out.String() != want {
			t.Errorf("%s\nwant\n%s", &out, want)
		}
	}
}

// The result of a shadow names the first difference of each kind.
func TestPrintShadow(t *testing.T) {
	r := shadow.Result{
		Flows: 3, Out: shadow.PacketCount{Equal: 120, Different: 2, NotForwarded: 9, Changed: 1}, In: shadow.PacketCount{Equal: 80, Missed: 7},
		Differences: []shadow.Mismatch{
			{Direction: "out of a pod", Field: "outer IP header", Packets: 2, Flow: "TCP 10.244.1.2:4000 > 10.244.2.2:80", Offset: 15, Expected: "00 00", Actual: "20 00"},
			{Direction: "out of a pod", Field: "the network did not forward it", Packets: 9, Flow: "UDP 10.244.1.2:4000 > 10.244.2.2:53"},
		},
		Loss: &shadow.Loss{Flow: "UDP 10.244.1.2:4000 > 10.244.2.2:53", NotForwarded: 9, Compared: 60},
	}
	const want = `packets of 3 flows were compared with the network's own

PACKETS      EQUAL  DIFFERENT  NOT FORWARDED  CHANGED  MISSED
out of pods  120    2          9              1        0
into pods    80     0          0              0        7

2 differ: outer IP header, from byte 15: 00 00 would be sent, the network sends 20 00 (out of a pod, TCP 10.244.1.2:4000 > 10.244.2.2:80)

9 not forwarded; the first: UDP 10.244.1.2:4000 > 10.244.2.2:53, out of a pod

too many are lost: the network did not forward 9 of 60 packets of UDP 10.244.1.2:4000 > 10.244.2.2:53
`
	var out bytes.Buffer
	if err := PrintShadow(&out, r); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}

	out.Reset()
	const few = "\n\ninconclusive flows: 2 (every packet in one direction was lost, too few to tell why)\n"
	r.Inconclusive, r.Loss = 2, nil
	if err := PrintShadow(&out, r); err != nil || !strings.HasSuffix(out.String(), few) {
		t.Errorf("%v\n%s\nwant at its end\n%s", err, &out, few)
	}
}
