package setting

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// nlaType is what of an attribute's type is no flag: NLA_TYPE_MASK.
const nlaType = 0x3fff

func tcRequest(command, index, flags int, parent, handle uint32) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(command, flags)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: parent, Handle: handle})
	return req
}

// readQdiscs reads the root of a device, and the leaves below it.
func readQdiscs(index int) (root Qdisc, err error) {
	answers, err := tcRequest(unix.RTM_GETQDISC, index, unix.NLM_F_DUMP, 0, 0).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if err != nil {
		return root, err
	}
	var leaves []Qdisc
	found := false
	for _, answer := range answers {
		msg := nl.DeserializeTcMsg(answer)
		if int(msg.Ifindex) != index || msg.Parent == netlink.HANDLE_INGRESS {
			continue
		}
		q, err := readQdisc(index, msg, answer[nl.SizeofTcMsg:])
		if err != nil {
			return root, err
		}
		if msg.Parent == netlink.HANDLE_ROOT {
			root, found = q, true
			continue
		}
		q.Queue = int(msg.Parent & 0xffff)
		leaves = append(leaves, q)
	}
	if !found {
		return root, &host.InactiveError{Why: "it was not up yet, and the kernel gives it a queue when it comes up"}
	}
	slices.SortFunc(leaves, func(a, b Qdisc) int { return a.Queue - b.Queue })
	root.Leaves = leaves
	return root, nil
}

func readQdisc(index int, msg *nl.TcMsg, attrs []byte) (Qdisc, error) {
	q := Qdisc{Handle: fmt.Sprintf("%x:", msg.Handle>>16)}
	list, err := nl.ParseRouteAttr(attrs)
	if err != nil {
		return q, err
	}
	for _, a := range list {
		switch a.Attr.Type & nlaType {
		case unix.TCA_KIND:
			q.Kind = unix.ByteSliceToString(a.Value)
		case unix.TCA_OPTIONS:
			q.Options = hex.EncodeToString(a.Value)
		case unix.TCA_STAB:
			q.Attached = append(q.Attached, "a size table")
		case unix.TCA_INGRESS_BLOCK, unix.TCA_EGRESS_BLOCK:
			q.Attached = append(q.Attached, "a shared block of filters")
		case unix.TCA_STATS2:
			stats, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return q, err
			}
			for _, s := range stats {
				if s.Attr.Type == nl.TCA_STATS_RATE_EST || s.Attr.Type == nl.TCA_STATS_RATE_EST64 {
					q.Attached = append(q.Attached, "a rate estimator")
				}
			}
		}
	}
	if !slices.Contains(rebuildable, q.Kind) {
		q.Options = "" // never written, and the kernel counts in some of them: htb, packets without a class
	}
	if filters, err := tcRequest(unix.RTM_GETTFILTER, index, unix.NLM_F_DUMP, msg.Handle, 0).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER); err != nil {
		return q, fmt.Errorf("list filters: %w", err)
	} else if len(filters) > 0 && (msg.Handle != 0 || msg.Parent == netlink.HANDLE_ROOT) {
		q.Attached = append(q.Attached, "filters")
	}
	slices.Sort(q.Attached)
	q.Attached = slices.Compact(q.Attached)
	return q, nil
}

// writeQdiscs makes a device have a root, and leaves below it. Chosen is the
// kind that the kernel gives to devices by itself.
func writeQdiscs(index int, want Qdisc, chosen string) error {
	if want.Handle != kernelHandle { // which makes its own again, of whatever kind
		if err := want.Exact(); err != nil {
			return err
		}
	}
	now, err := readQdiscs(index)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := want.checkDefault(chosen); err != nil {
		return err
	}
	if want.Handle == kernelHandle {
		device, err := net.InterfaceByIndex(index)
		if err != nil {
			return err
		}
		if device.Flags&net.FlagUp == 0 {
			return errors.New("the device is down, and the kernel gives it its own queue only when it is up: bring it up, and try again")
		}
	}
	// A root of the same handle would be changed, not made anew, and keep what it has.
	if now.Handle != kernelHandle && (want.Handle == kernelHandle || want.Handle == now.Handle) {
		req := tcRequest(unix.RTM_DELQDISC, index, unix.NLM_F_ACK, netlink.HANDLE_ROOT, 0)
		if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
			return fmt.Errorf("delete %s %s: %w", now.Kind, now.Handle, err)
		}
	}
	if want.Handle == kernelHandle {
		return nil
	}
	root := parseHandle(want.Handle) << 16
	if err := makeQdisc(index, netlink.HANDLE_ROOT, want); err != nil {
		return err
	}
	for _, leaf := range want.Leaves {
		if leaf.Handle == kernelHandle {
			continue
		}
		if err := makeQdisc(index, root|uint32(leaf.Queue), leaf); err != nil {
			return err
		}
	}
	return nil
}

// checkDefault tells whether the kernel would make those again that it made by
// itself: which kind it takes is a setting of the machine, that may have changed
// since.
func (q Qdisc) checkDefault(chosen string) error {
	parts := q.Leaves
	if q.Kind != "mq" {
		parts = []Qdisc{q}
	}
	for _, p := range parts {
		if p.Handle == kernelHandle && p.Kind != "noqueue" && chosen != "" && p.Kind != chosen {
			return fmt.Errorf("the kernel had put %s there by itself, and would put %s there now: set net.core.default_qdisc to %s, and try again", p.Kind, chosen, p.Kind)
		}
	}
	return nil
}

func makeQdisc(index int, parent uint32, q Qdisc) error {
	options, err := hex.DecodeString(q.Options)
	if err != nil {
		return fmt.Errorf("read options of %s: %w", q.Kind, err)
	}
	if q.Kind == "codel" || q.Kind == "fq_codel" {
		codelTimes(q.Kind, options)
	}
	req := tcRequest(unix.RTM_NEWQDISC, index, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, parent, parseHandle(q.Handle)<<16)
	req.AddData(nl.NewRtAttr(unix.TCA_KIND, nl.ZeroTerminated(q.Kind)))
	if len(options) > 0 {
		req.AddData(nl.NewRtAttr(unix.TCA_OPTIONS, options))
	}
	if _, err = req.Execute(unix.NETLINK_ROUTE, 0); errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("this kernel has no qdisc %s: %w", q.Kind, errors.ErrUnsupported)
	}
	return err
}

// codelTimes makes times that the kernel tells those that it takes: it keeps
// them in units of 1024 ns, rounds down both ways, and would give back one less
// each time.
func codelTimes(kind string, options []byte) {
	times := []uint16{nl.TCA_FQ_CODEL_TARGET, nl.TCA_FQ_CODEL_INTERVAL, nl.TCA_FQ_CODEL_CE_THRESHOLD}
	if kind == "codel" {
		times = []uint16{1, 3, 5} // TCA_CODEL_TARGET, _INTERVAL, _CE_THRESHOLD
	}
	for len(options) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(options))
		if size < unix.SizeofRtAttr || size > len(options) {
			return
		}
		if value := options[unix.SizeofRtAttr:size]; len(value) == 4 && slices.Contains(times, binary.NativeEndian.Uint16(options[2:])) {
			binary.NativeEndian.PutUint32(value, binary.NativeEndian.Uint32(value)+1)
		}
		options = options[min(len(options), (size+3)&^3):]
	}
}
