package host

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LegacyBridgeTables lists the tables of the ebtables that do not use nftables which
// the kernel has loaded, by its files in a folder such as /sys. Whether a namespace
// has such a table cannot be found out without making it.
func LegacyBridgeTables(sys string) (names []string) {
	for _, name := range []string{"broute", "nat", "filter"} {
		if _, err := os.Stat(filepath.Join(sys, "module", "ebtable_"+name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// silentSettings are those of a namespace that decide what becomes of packets, and of
// whose changes the kernel tells nobody.
var silentSettings = []string{"bridge/bridge-nf-call-iptables", "bridge/bridge-nf-filter-vlan-tagged", "ipv4/ip_default_ttl", "ipv4/ip_forward_use_pmtu"}

// Silent is what of a namespace changes and the kernel tells nobody. It is for those who
// look all the time: files and sockets stay open, because to open one takes several
// times as long as to ask it.
type Silent struct {
	Hooks    *Hooks
	settings []keptFile
	legacy   keptFile
	prober   *prober
}

// OpenSilent opens that of the calling thread's namespace.
func OpenSilent() (*Silent, error) {
	s := &Silent{legacy: keptFile{path: legacyNames}}
	for _, name := range silentSettings {
		s.settings = append(s.settings, keptFile{path: filepath.Join("/proc/sys/net", name)})
	}
	if err := s.dial(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Silent) dial() (err error) {
	if s.Hooks, err = OpenHooks(); err != nil {
		return err
	}
	s.prober, err = openProber()
	return err
}

// Close ends it.
func (s *Silent) Close() {
	for i := range s.settings {
		s.settings[i].close()
	}
	s.legacy.close()
	if s.Hooks != nil {
		s.Hooks.Close()
	}
	if s.prober != nil {
		s.prober.close()
	}
}

// Settings reads those that decide what becomes of packets; one that there is not is
// empty.
func (s *Silent) Settings() []string {
	values := make([]string, len(s.settings))
	for i := range s.settings {
		values[i], _ = s.settings[i].read()
	}
	return values
}

// LegacyTables lists the tables of legacy iptables for IPv4 that there are, by name.
func (s *Silent) LegacyTables() ([]string, error) {
	names, err := s.legacy.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(names), nil
}

// Resized tells whether packets to some pods and peers may be of another size than
// [ReadWays] had found, or pods have an XDP program now: what a route learns of the
// network beyond it is no news, nor is what a pod does to its own device.
func (s *Silent) Resized(pods []PodWay, peers []PeerWay) bool {
	return slices.ContainsFunc(pods, func(p PodWay) bool {
		if p.Own == (OwnEnd{}) {
			return false
		}
		mtu, xdp, err := s.prober.device(p.Own.Space, p.Own.Index)
		return err == nil && (mtu != p.Own.MTU || xdp != p.Own.XDP) // of one that has gone there is news to come
	}) || slices.ContainsFunc(peers, func(p PeerWay) bool {
		if p.Tunnel == nil {
			return false // what the network beyond can take is the pods' own business
		}
		from, _ := netip.AddrFromSlice(p.Tunnel.Source.To4())
		mtu, err := s.prober.routeMTU(p.Tunnel.Remote, from, p.Tunnel.Below)
		return err != nil || mtu != p.RouteMTU
	})
}

// keptFile is a file of the kernel's that is read again and again. It is opened when it
// is read first, and again if what it was of has gone: a module comes and goes.
type keptFile struct {
	path string
	file *os.File
	text [256]byte // as it was read last: of what is looked at all the time, nothing is longer
}

func (f *keptFile) read() (text string, err error) {
	if f.file != nil {
		if text, err = f.again(); err == nil {
			return text, nil
		}
		f.close()
	}
	if f.file, err = os.Open(f.path); err != nil {
		f.file = nil
		return "", err
	}
	return f.again()
}

func (f *keptFile) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// again reads the open file from its beginning.
func (f *keptFile) again() (string, error) {
	n, err := f.file.ReadAt(f.text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(f.text[:n]), nil
}
