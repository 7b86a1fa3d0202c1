package pods

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// The names of the arms of both versions of IP.
const (
	HostIPv4   = "host, IPv4"
	HostIPv6   = "host, IPv6"
	RoutedIPv4 = "routed+fast, IPv4"
	RoutedIPv6 = "routed+fast, IPv6"
)

// address6 is an address in a network of IPv6, such as fd00:f4:1::2.
func address6(format string, numbers ...any) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(format, numbers...))
}

// BothVersions are the host network and the path routed+fast of a lab, over IPv4 and over IPv6, which it
// adds to both machines.
func BothVersions(ctx context.Context, l *lab.Lab, program []string) (arms []Arm, err error) {
	if len(l.Arms) < 2 || l.Arms[1].Pins == nil {
		return nil, fmt.Errorf("lab %s has no fast path beside the host network", l.Name)
	}
	of, six := l.Arms[1], Arm{Name: RoutedIPv6, Port: serverPort + 3}
	var configs [2]*fastpath.Config
	for i := range configs {
		four, err := fastpath.Load(filepath.Join(filepath.Dir(of.Pins[i]), "fast.json"))
		if err != nil {
			return nil, err
		}
		if err := addIPv6(l, i, of.Ends[i][0], four.Devices.Pods[0]); err != nil {
			return nil, err
		}
		configs[i] = &fastpath.Config{Kind: fastpath.Routed6, Devices: four.Devices, Stamp: four.Stamp + 1}
	}
	at := func(e host.Endpoint, addr netip.Addr) host.Endpoint {
		e.Addr = addr
		return e
	}
	machines := [2]host.Endpoint{l.Arms[0].Client(), l.Arms[0].Server()}
	six.From, six.To = at(of.Client(), address6("fd00:f4:1::2")), at(of.Server(), address6("fd00:f4:2::2"))
	if err := six.meet(); err != nil {
		return nil, err
	}
	for i, c := range configs {
		n, err := l.Open(i)
		if err != nil {
			return nil, err
		}
		err = startDaemon(ctx, n, program, "six", filepath.Dir(of.Pins[i]), 1, c)
		n.Close()
		if err != nil {
			return nil, err
		}
		six.Pins = append(six.Pins, c.Pins)
	}
	return []Arm{
		{Name: HostIPv4, From: machines[0], To: machines[1], Port: serverPort},
		{Name: HostIPv6, From: at(machines[0], address6("fd00:c8::1")), To: at(machines[1], address6("fd00:c8::2")), Port: serverPort + 1},
		{Name: RoutedIPv4, From: of.Client(), To: of.Server(), Port: serverPort + 2, Pins: of.Pins},
		six,
	}, nil
}

// meet sends until there is an answer: then all on the way know their neighbours, as a fast path needs.
func (a Arm) meet() (err error) {
	end := time.Now().Add(ioTimeout)
	f, err := openFlow(a, UDPLatency, -1, -1)
	for errors.Is(err, unix.EADDRNOTAVAIL) && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond) // a new address takes the kernel a moment
		f, err = openFlow(a, UDPLatency, -1, -1)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	got := false
	for err == nil && !got {
		if got, err = f.exchange(); err == nil && !got && time.Now().After(end) {
			err = fmt.Errorf("there is no answer on %s after %v", a.Name, ioTimeout)
		}
	}
	return err
}

// addIPv6 gives a machine, and its pod behind a device, addresses and routes of IPv6.
func addIPv6(l *lab.Lab, i int, end host.Endpoint, device string) error {
	n, err := l.Open(i)
	if err != nil {
		return err
	}
	defer n.Close()
	pod, err := l.OpenEnd(end)
	if err != nil {
		return err
	}
	defer pod.Close()
	me, other := i+1, 2-i
	gateway := address6("fe80::1")
	// The kernel would take a while for addresses of its own, and to see that they are nobody else's.
	ready := func(device string) []netcfg.Sysctl {
		return []netcfg.Sysctl{
			{Name: "net.ipv6.conf.all.accept_dad", Value: "0"},
			{Name: "net/ipv6/conf/" + device + "/accept_dad", Value: "0"},
		}
	}
	if err := n.Sysctl(append(append(ready(device), ready(lab.WireDevice)...), netcfg.Sysctl{Name: "net.ipv6.conf.all.forwarding", Value: "1"})...); err != nil {
		return err
	}
	if err := pod.Sysctl(ready(podDevice)...); err != nil {
		return err
	}
	for _, a := range []struct {
		in     *netcfg.Namespace
		device string
		addr   netip.Addr
		bits   int
	}{
		{n, lab.WireDevice, address6("fe80::1:%d", me), 64},
		{n, lab.WireDevice, address6("fd00:c8::%d", me), 64},
		{n, device, gateway, 64},
		{pod, podDevice, address6("fe80::2:%d", me), 64},
		{pod, podDevice, address6("fd00:f4:%d::2", me), 128},
	} {
		if err := a.in.AddAddr(a.device, netip.PrefixFrom(a.addr, a.bits)); err != nil {
			return err
		}
	}
	if err := n.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(address6("fd00:f4:%d::2", me), 128), Device: device}); err != nil {
		return err
	}
	if err := n.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(address6("fd00:f4:%d::", other), 64), Via: address6("fd00:c8::%d", other), Device: lab.WireDevice}); err != nil {
		return err
	}
	return pod.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Via: gateway, Device: podDevice})
}
