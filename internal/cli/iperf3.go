package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/iperf3"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// newIperf3Server serves people who have an iperf3 and want to check us, or a host.
func newIperf3Server(env *Env) *cobra.Command {
	var (
		bind   string
		port   = iperf3.Port
		oneOff bool
	)
	cmd := &cobra.Command{
		Use:   "iperf3-server",
		Short: "Serve iperf3 clients: TCP and UDP, several streams, either direction",
		Long: `Speak iperf3's protocol, so that any iperf3 can measure against this host. Tests run one
at a time, as with "iperf3 --server"; another client gets the error that the server is busy.
TCP, UDP, -P, -R, -b, -l, -t, -O and -J work. --bidir, SCTP and authentication are refused.

As with iperf3 itself, anyone who can reach the port can load this host's network: use
--bind to restrict it to one address. Ctrl-C ends the server.`,
		Example: `  venturi iperf3-server
  venturi iperf3-server --bind 10.0.0.1 -p 5202 --one-off
  iperf3 -c HOST -P 4 -R                   on the other host`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at := net.JoinHostPort(bind, strconv.Itoa(port))
			l, err := newListener("cannot serve iperf3 clients", at, "give --bind an address of this host, and -p a free port")
			if err != nil {
				return err
			}
			ln, err := l.listen()
			if err != nil {
				return err
			}
			sanitize.Fprintf(env.Stderr, "venturi: iperf3 clients are served on %s\n", ln.Addr().String())
			s := iperf3.Responder{Event: func(t iperf3.Test) {
				if t.Err != nil {
					sanitize.Fprintf(env.Stderr, "venturi: %s: %s\n", t.Client, t.Err.Error())
					return
				}
				sanitize.Fprintf(env.Stdout, "%s: %s\n", t.Client, iperf3Line(t.Result))
			}}
			err = s.Serve(cmd.Context(), ln, oneOff)
			if cmd.Context().Err() != nil {
				return nil // Ctrl-C is how a server ends
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&bind, "bind", "", "listen at this address only (default: all)")
	f.VarP(number{&port, 1, 65535}, "port", "p", "listen on this TCP port, and for datagrams on the same UDP port")
	f.BoolVar(&oneOff, "one-off", false, "end after one test")
	return cmd
}

// iperf3Server reads HOST or HOST:PORT. An address of IPv6 needs no brackets where no port follows.
func iperf3Server(text string) (address string, err error) {
	host, port, err := net.SplitHostPort(text)
	if _, bare := netip.ParseAddr(strings.Trim(text, "[]")); err != nil && (bare == nil || !strings.Contains(text, ":")) {
		host, port, err = strings.Trim(text, "[]"), strconv.Itoa(iperf3.Port), nil
	}
	number, wrong := strconv.ParseUint(port, 10, 16)
	switch {
	case err == nil && host == "":
		err = errEmpty
	case err == nil && (wrong != nil || number == 0):
		err = fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return net.JoinHostPort(host, port), verr.Wrap(verr.Usage, fmt.Sprintf("cannot measure against the iperf3 server %q", text), err, "give HOST, HOST:PORT or [IPV6]:PORT")
}

// iperf3Line is a report in one line.
func iperf3Line(r iperf3.TestResult) string {
	text := fmt.Sprintf("%s received in %.2f s over %d streams", unit.Bits(r.BitsPerSec), r.Seconds, r.Streams)
	if r.Retransmits >= 0 {
		text += fmt.Sprintf(", %.0f segments sent again", r.Retransmits)
	}
	if r.Packets > 0 {
		text += fmt.Sprintf(", %.0f of %.0f datagrams lost, jitter %.3f ms", r.Lost, r.Packets, 1e3*r.Jitter)
	}
	return text
}

// newIperf3 is a client of iperf3 servers.
func newIperf3(env *Env) *cobra.Command {
	var (
		c      = iperf3.Client{Time: 10 * time.Second}
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "iperf3 HOST[:PORT]",
		Short: "Measure against an existing iperf3 server",
		Long: `Speak iperf3's protocol to "iperf3 --server" or "venturi iperf3-server". Use it for hosts
on which Venturi may not be installed. To compare paths, use "venturi compare", whose
figures have intervals.`,
		Example: `  venturi iperf3 10.0.0.2
  venturi iperf3 10.0.0.2:5202 --flows 4 --reverse
  venturi iperf3 10.0.0.2 --udp --rate 100M --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no server is given")
			}
			return atMost(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if c.Server, err = iperf3Server(args[0]); err != nil {
				return err
			}
			what := "cannot measure against the iperf3 server " + c.Server
			if c.Time < time.Second || c.Time > 24*time.Hour || c.Time%time.Second != 0 {
				return verr.New(verr.Usage, what+" for "+c.Time.String(), "iperf3 measures for whole seconds, at most a day", "give a --time such as 10s")
			}
			if err := c.Check(); err != nil {
				return verr.Wrap(verr.Usage, what, err, "choose a --size of 1 byte to 1 MiB, or for datagrams of 16 to 65507 bytes")
			}
			sanitize.Fprintf(env.Stderr, "venturi: measuring against %s for %s\n", c.Server, c.Time)
			r, err := c.Run(cmd.Context())
			switch {
			case err != nil:
				return verr.Wrap(verr.Failed, what, err, "check that an iperf3 server listens there and is idle, and that firewalls pass TCP and UDP")
			case asJSON:
				return display.PrintJSON(env.Stdout, r)
			}
			sanitize.Fprintln(env.Stdout, iperf3Line(r))
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.UDP, "udp", false, "send datagrams; without --rate, as fast as possible")
	f.BoolVar(&c.Reverse, "reverse", false, "the server sends")
	f.Var(number{&c.Streams, 1, iperf3.MaxStreams}, "flows", "streams at a time (default 1)")
	f.IntVar(&c.Length, "size", 0, "bytes of a message (default 128 KiB, or a datagram of 1448 bytes)")
	f.Func("rate", "offer this `RATE` in bits per second, over all streams: 100M, 1G\n(default: as fast as possible)", rateFlag(&c.Rate))
	f.DurationVar(&c.Time, "time", c.Time, "how long, in whole seconds")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}
