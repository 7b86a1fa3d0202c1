package setting

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

// The kernel chooses by a setting of the machine: what it chose before cannot be
// brought back when that has changed, and is not touched then.
func TestQdiscByKernel(t *testing.T) {
	single := func(handle, kind string) Qdisc { return Qdisc{Handle: handle, Kind: kind} }
	for _, c := range []struct {
		q      Qdisc
		chosen string
		can    bool
	}{
		{single("0:", "fq_codel"), "fq_codel", true},
		{single("0:", "fq_codel"), "fq", false},
		{single("0:", "fq_codel"), "", true},
		{single("0:", "noqueue"), "fq", true},
		{single("1:", "fq_codel"), "fq", true},
		{Qdisc{Handle: "0:", Kind: "mq", Leaves: []Qdisc{single("0:", "fq")}}, "fq", true},
		{Qdisc{Handle: "0:", Kind: "mq", Leaves: []Qdisc{single("0:", "fq_codel")}}, "fq", false},
		{Qdisc{Handle: "1:", Kind: "mq", Leaves: []Qdisc{single("2:", "fq_codel"), single("0:", "fq")}}, "fq", true},
	} {
		err := c.q.checkDefault(c.chosen)
		if (err == nil) != c.can {
			t.Errorf("%+v where the kernel chooses %s: %v", c.q, c.chosen, err)
		}
		if err != nil && !strings.Contains(err.Error(), "net.core.default_qdisc") {
			t.Errorf("%v does not say what to do", err)
		}
	}
}

// codel keeps times in units of 1024 ns. Whatever it tells must become itself
// again.
func TestCodelTimes(t *testing.T) {
	for us := uint32(0); us < 200_000; us += 7 {
		keeps := func(us uint32) uint32 { return uint32(uint64(us) * 1000 >> 10) }
		tells := func(kept uint32) uint32 { return uint32(uint64(kept) << 10 / 1000) }
		told := tells(keeps(us))
		limit, target := nl.NewRtAttr(2, nl.Uint32Attr(1234)), nl.NewRtAttr(nl.TCA_FQ_CODEL_TARGET, nl.Uint32Attr(told))
		options := append(limit.Serialize(), target.Serialize()...)
		codelTimes("fq_codel", options)
		if taken := binary.NativeEndian.Uint32(options[12:]); tells(keeps(taken)) != told {
			t.Fatalf("%d us are told as %d, and become %d", us, told, tells(keeps(taken)))
		}
		if binary.NativeEndian.Uint32(options[4:]) != 1234 {
			t.Fatal("the limit was changed")
		}
	}
	codelTimes("codel", []byte{1, 2, 3}) // damaged
	codelTimes("codel", []byte{200, 0, 1, 0, 1, 2, 3, 4})
}

// What could not be brought back is refused, whatever is above it.
func TestQdiscExact(t *testing.T) {
	for _, c := range []struct {
		text string
		can  bool
	}{
		{`{"handle":"0:","kind":"noqueue"}`, true},
		{`{"handle":"1:","kind":"htb"}`, false},
		{`{"handle":"1:","kind":"fq_codel","with":["filters"]}`, false},
		{`{"handle":"1:","kind":"mq","leaves":[{"handle":"0:","kind":"fq","queue":1}]}`, true},
		{`{"handle":"1:","kind":"mq","leaves":[{"handle":"2:","kind":"netem","queue":1}]}`, false},
		{`{"handle":"1:","kind":"mq","leaves":[{"handle":"2:","kind":"mq","queue":1}]}`, false},
		{`{"handle":"1:","kind":"mq","with":["a rate estimator"]}`, false},
	} {
		q, err := ReadQdisc(Text(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Exact(); (err == nil) != c.can {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if _, err := ReadQdisc(Text("{")); err == nil {
		t.Error("read what is no qdisc")
	}
}
