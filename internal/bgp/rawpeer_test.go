package bgp_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Types of BGP messages.
const (
	msgOpen         = 1
	msgUpdate       = 2
	msgNotification = 3
	msgKeepalive    = 4
)

// rawPeer is a BGP peer that says what a test wants it to say, right or wrong.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	end  chan error // why the reading ended
}

// rawPeer opens a session from machine i to the speaker on machine to.
func (r *rig) rawPeer(i, to int) *rawPeer {
	r.t.Helper()
	p := &rawPeer{t: r.t, end: make(chan error, 1)}
	testenv.InNetns(r.t, r.hosts[i].Path(), func() (err error) {
		p.conn, err = net.DialTimeout("tcp4", netip.AddrPortFrom(addr(to), 179).String(), long)
		return err
	})
	id := addr(i).As4()
	open := binary.BigEndian.AppendUint16([]byte{4}, asn)
	open = binary.BigEndian.AppendUint16(open, 90) // hold time: no test takes as long, so no keepalives
	open = append(append(open, id[:]...), 0)       // no capabilities
	p.send(msgOpen, open)
	for _, want := range []byte{msgOpen, msgKeepalive} {
		if kind, body, err := p.read(); err != nil || kind != want {
			r.t.Fatalf("open session: got message %d (% x), %v, want type %d", kind, body, err, want)
		}
	}
	p.send(msgKeepalive, nil)
	go p.listen()
	r.t.Cleanup(func() {
		p.conn.Close()
		<-p.end
	})
	return p
}

// listen reads until the session ends.
func (p *rawPeer) listen() {
	for {
		kind, body, err := p.read()
		if err == nil && kind == msgNotification {
			err = fmt.Errorf("notification % x", body)
		}
		if err != nil {
			p.end <- err
			return
		}
	}
}

func (p *rawPeer) send(kind byte, body []byte) {
	p.t.Helper()
	msg := make([]byte, 16, 19+len(body))
	for i := range msg {
		msg[i] = 0xff
	}
	msg = binary.BigEndian.AppendUint16(msg, uint16(19+len(body)))
	_, err := p.conn.Write(append(append(msg, kind), body...))
	testenv.Must(p.t, err)
}

func (p *rawPeer) read() (kind byte, body []byte, err error) {
	var head [19]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint16(head[16:]))-len(head))
	_, err = io.ReadFull(p.conn, body)
	return head[18], body, err
}

// update announces prefixes with these attributes.
func (p *rawPeer) update(attributes []byte, announce ...netip.Prefix) {
	p.t.Helper()
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attributes)))
	body = append(body, attributes...)
	for _, n := range announce {
		a := n.Addr().As4()
		body = append(append(body, byte(n.Bits())), a[:(n.Bits()+7)/8]...)
	}
	p.send(msgUpdate, body)
}
