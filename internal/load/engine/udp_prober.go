package engine

// udpProber sends requests on the flow's own socket.
type udpProber struct {
	conn  socket
	clock clock
	out   []byte
	in    []byte
}

func newUDPProber(conn socket, clock clock, size int) *udpProber {
	return &udpProber{conn: socket{fd: conn.fd, hot: true}, clock: clock, out: make([]byte, size), in: make([]byte, max(size, frameSize)+1)}
}

func (p *udpProber) fd() int { return p.conn.fd }
func (p *udpProber) close()  {} // the socket is the flow's

func (p *udpProber) send(number uint64) error {
	putNumber(p.out, number)
	_, err := p.conn.sendNow(p.out)
	return err
}

func (p *udpProber) receive() (number uint64, at int64, ok bool, err error) {
	n, err := p.conn.recvReady(false, p.in, 0)
	if err != nil {
		return 0, 0, false, err
	}
	at = p.clock.now()
	if n == 0 {
		return 0, 0, false, errPeerGone
	}
	if n != len(p.out) || !hasNumber(p.in[:n], getNumber(p.in)) {
		return 0, 0, false, nil
	}
	return getNumber(p.in), at, true, nil
}
