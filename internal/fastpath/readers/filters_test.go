package readers_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/venturi-net/venturi/internal/fastpath/readers"
)

// unseen is an attribute of a later kernel.
const unseen = 200

// filter is the kernel's message about a filter.
func filter(kind string, options ...*nl.RtAttr) []byte {
	all := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	for _, o := range options {
		all.AddChild(o)
	}
	header := append(make([]byte, nl.SizeofTcMsg), nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)).Serialize()...)
	return append(header, all.Serialize()...)
}

// Actions that may treat packets of the fast path differently are named.
func TestFilterActions(t *testing.T) {
	for _, c := range []struct {
		kind      string
		attribute int
		actions   string
		want      string
	}{
		{"u32", 7, "gact", ""}, {"flower", 3, "pedit csum", ""}, {"matchall", 2, "police", ""},
		{"fw", 4, "mirred", "mirred"}, {"u32", 7, "ct", "ct"}, {"flower", 3, "gact connmark", "connmark"},
		{"matchall", 2, "ctinfo gact", "ctinfo"},
		{"matchall", 2, "unheard", "unheard"}, {"fw", 4, "skbedit bpf", "bpf"},
	} {
		list := nl.NewRtAttr(c.attribute, nil)
		for i, action := range strings.Fields(c.actions) {
			list.AddRtAttr(i+1, nl.NewRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated(action)).Serialize())
		}
		want := ""
		if c.want != "" {
			want = "filters of action " + c.want
		}
		if got := readers.UnprovenFilter(filter(c.kind, list)); got != want {
			t.Errorf("%s with %s: %q, want %q", c.kind, c.actions, got, want)
		}
	}
}

// Of each kind, the attributes that match a packet's contents and its mark are proven. All others are named, whether
// this version knows them or not: those of 1 to 120, and one of a later kernel.
func TestFilterAttributes(t *testing.T) {
	enc := func(what, mask int) map[int]string {
		names := map[int]string{}
		for i, name := range strings.Fields("key_id src_ip src_ip dst_ip dst_ip src_ip src_ip dst_ip dst_ip") {
			names[what+i] = "enc_" + name
		}
		for i, name := range strings.Fields("src_port src_port dst_port dst_port") {
			names[mask+i] = "enc_" + name
		}
		return names
	}
	flower := enc(26, 43)
	for first, names := range map[int]string{
		2: "indev", 80: "enc_tos enc_tos enc_ttl enc_ttl enc_opts enc_opts", 100: "hash hash",
		91: "ct_state ct_state ct_zone ct_zone ct_mark ct_mark ct_label ct_label",
	} {
		for i, name := range strings.Fields(names) {
			flower[first+i] = name
		}
	}
	for n := 106; n <= 120; n++ {
		if n != 108 && n != 109 { // of the SPI
			flower[n] = fmt.Sprint("attribute ", n)
		}
	}
	for kind, c := range map[string]struct {
		last    int // that this version knows
		refused map[int]string
	}{
		"u32": {12, map[int]string{8: "indev"}}, "fw": {5, map[int]string{3: "indev"}},
		"matchall": {5, nil}, "bpf": {11, nil}, "flower": {120, flower},
	} {
		for n := 1; n <= 120; n++ {
			want := c.refused[n]
			if n > c.last {
				want = fmt.Sprint("attribute ", n)
			}
			checkAttribute(t, kind, n, want)
		}
		checkAttribute(t, kind, unseen, fmt.Sprint("attribute ", unseen))
	}
}

// checkAttribute checks what is said of a filter with an attribute. One of bpf has harmless instructions besides.
func checkAttribute(t *testing.T, kind string, number int, want string) {
	t.Helper()
	options := []*nl.RtAttr{nl.NewRtAttr(number, nil)}
	if kind == "bpf" {
		options = append(options, nl.NewRtAttr(nl.TCA_BPF_OPS, bytecode(op{6, 0})))
	}
	if want != "" {
		want = fmt.Sprintf("filters of kind %s by %s", kind, want)
	}
	if got := readers.UnprovenFilter(filter(kind, options...)); got != want {
		t.Errorf("%s with attribute %d: %q, want %q", kind, number, got, want)
	}
}

// Instructions of classic BPF are judged, programs of eBPF are not known.
func TestFilterBytecode(t *testing.T) {
	const (
		ancillary = 0xfffff000
		network   = 0xfff00000 // SKF_NET_OFF
		link      = 0xffe00000 // SKF_LL_OFF
		word      = 0x20       // load a word from an offset
		half      = 0x28
		octet     = 0x30
		indirect  = 0x40 // the same, plus a register
		end       = 6
	)
	for _, c := range []struct {
		name   string
		ops    []byte
		proven bool
	}{
		{"nothing", bytecode(op{end, 0}), true},
		{"the packet", bytecode(op{octet, 9}, op{half, network + 16}, op{word, link + 12}, op{end, 1}), true},
		{"where the packet says", bytecode(op{word, 12}, op{indirect, ancillary + 8}, op{end, 1}), true},
		{"the protocol", bytecode(op{word, ancillary}, op{end, 1}), true},
		{"the mark", bytecode(op{word, ancillary + 20}, op{end, 1}), true},
		{"the type", bytecode(op{octet, ancillary + 4}, op{end, 1}), false},
		{"the hash", bytecode(op{end, 0}, op{half, ancillary + 32}), false},
		{"a later field", bytecode(op{word, ancillary + 64}, op{end, 1}), false},
		{"half an instruction", bytecode(op{end, 0})[:7], false},
		{"none, as of eBPF", nil, false},
	} {
		want := ""
		if !c.proven {
			want = "filters of kind bpf"
		}
		options := []*nl.RtAttr{nl.NewRtAttr(nl.TCA_BPF_NAME, nl.ZeroTerminated("x"))}
		if c.ops != nil {
			options = append(options, nl.NewRtAttr(nl.TCA_BPF_OPS, c.ops))
		}
		if got := readers.UnprovenFilter(filter("bpf", options...)); got != want {
			t.Errorf("bytecode that reads %s: %q, want %q", c.name, got, want)
		}
	}
}

// op is an instruction: a code and an operand.
type op [2]uint32

// bytecode is what instructions look like.
func bytecode(instructions ...op) (b []byte) {
	for _, one := range instructions {
		b = binary.NativeEndian.AppendUint16(b, uint16(one[0]))
		b = binary.NativeEndian.AppendUint32(append(b, 0, 0), one[1])
	}
	return b
}

// Other kinds are named, the head of a chain does nothing, and what cannot be read is refused.
func TestFilterKinds(t *testing.T) {
	cut := filter("u32", nl.NewRtAttr(1, make([]byte, 8)))
	header := make([]byte, nl.SizeofTcMsg)
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"another kind", filter("basic", nl.NewRtAttr(1, nil)), "filters of kind basic"},
		{"the head of a chain of flower", filter("flower"), ""},
		{"the head of a chain of another kind", filter("flow"), "filters of kind flow"},
		{"half a header", header[:7], "filters that cannot be read"},
		{"a message that was cut off", cut[:len(cut)-4], "filters that cannot be read"},
		{"options that are none", slices.Concat(header, nl.NewRtAttr(nl.TCA_KIND, []byte("u32")).Serialize(),
			nl.NewRtAttr(nl.TCA_OPTIONS, []byte{99, 0, 1, 0}).Serialize()), "filters that cannot be read"},
	} {
		if got := readers.UnprovenFilter(c.message); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
