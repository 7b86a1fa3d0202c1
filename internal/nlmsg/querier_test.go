package nlmsg

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// reply is a message as the kernel answers the first request of a querier.
func reply(kind, flags uint16, body ...byte) []byte {
	m := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_MULTI | flags, Seq: 1}, RawData: body}
	return m.Serialize()
}

func result(errno unix.Errno) []byte { return binary.NativeEndian.AppendUint32(nil, -uint32(errno)) }

// A list is whole only if its end says so: the kernel may end one with an error, or mark any message of it
// when the table has changed meanwhile.
func TestDumpEnds(t *testing.T) {
	const object = unix.RTM_NEWNEIGH
	first, second := reply(object, 0, 1, 0, 0, 0), reply(object, 0, 2, 0, 0, 0)
	for name, c := range map[string]struct {
		datagrams [][]byte
		want      error
	}{
		"whole":                        {[][]byte{slices.Concat(first, second), reply(unix.NLMSG_DONE, 0, result(0)...)}, nil},
		"whole, and without a result":  {[][]byte{first, second, reply(unix.NLMSG_DONE, 0)}, nil},
		"ended by an error":            {[][]byte{first, slices.Concat(second, reply(unix.NLMSG_DONE, 0, result(unix.ENOMEM)...))}, unix.ENOMEM},
		"refused":                      {[][]byte{first, second, reply(unix.NLMSG_ERROR, 0, result(unix.EPERM)...)}, unix.EPERM},
		"longer than usual":            {[][]byte{slices.Concat(reply(object, 0, append([]byte{1, 0, 0, 0}, make([]byte, 2*usualDatagram)...)...), second), reply(unix.NLMSG_DONE, 0, result(0)...)}, nil},
		"longer than is read":          {[][]byte{first, second, reply(object, 0, make([]byte, maxDatagram)...)}, unix.EMSGSIZE},
		"changed meanwhile":            {[][]byte{first, reply(object, unix.NLM_F_DUMP_INTR, 2, 0, 0, 0), reply(unix.NLMSG_DONE, 0, result(0)...)}, ErrInterrupted},
		"changed at its end":           {[][]byte{first, second, reply(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, result(0)...)}, ErrInterrupted},
		"changed, and ended by errors": {[][]byte{first, second, reply(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, result(unix.EIO)...)}, unix.EIO},
	} {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetsockoptInt(ends[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4*maxDatagram); err != nil && c.want == unix.EMSGSIZE {
			t.Logf("%s: that takes root, and is not tried: %v", name, err)
			continue
		}
		for _, d := range c.datagrams { // they wait until the querier has asked
			if _, err := unix.Write(ends[1], d); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.SetsockoptTimeval(ends[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
			t.Fatal(err)
		}
		q, found := NewQuerier(ends[0]), []byte{}
		err = q.Dump(unix.RTM_GETNEIGH, make([]byte, 12), func(body []byte) bool { found = append(found, body[0]); return true })
		if _, _, err := unix.Recvfrom(ends[0], nil, unix.MSG_DONTWAIT); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("%s: after it, the next one reads what is left: %v", name, err)
		}
		q.Close()
		unix.Close(ends[1])
		if !errors.Is(err, c.want) || !slices.Equal(found, []byte{1, 2}) {
			t.Errorf("%s: %v, error %v, want 1 and 2, and %v", name, found, err, c.want)
		}
	}
}
