package topology

import (
	"errors"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nft"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// polledSysctls are those of a namespace that decide what becomes of packets, and of
// whose changes the kernel tells nobody.
var polledSysctls = []string{"bridge/bridge-nf-call-iptables", "bridge/bridge-nf-filter-vlan-tagged", "ipv4/ip_default_ttl", "ipv4/ip_forward_use_pmtu"}

// Poller is what of a namespace changes and the kernel tells nobody. It is for those who
// look all the time: files and sockets stay open, because to open one takes several
// times as long as to ask it.
type Poller struct {
	Hooks   *audit.HookPoller
	sysctls []procFile
	legacy  procFile
	querier *rtnlQuerier
}

// OpenPoller opens that of the calling thread's namespace.
func OpenPoller() (*Poller, error) {
	s := &Poller{legacy: procFile{path: nft.LegacyTablesFile}}
	for _, name := range polledSysctls {
		s.sysctls = append(s.sysctls, procFile{path: filepath.Join("/proc/sys/net", name)})
	}
	if err := s.dial(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Poller) dial() (err error) {
	if s.Hooks, err = audit.OpenHookPoller(); err != nil {
		return err
	}
	s.querier, err = openRtnlQuerier()
	return err
}

// Close ends it.
func (s *Poller) Close() {
	for i := range s.sysctls {
		s.sysctls[i].close()
	}
	s.legacy.close()
	if s.Hooks != nil {
		s.Hooks.Close()
	}
	if s.querier != nil {
		s.querier.close()
	}
}

// Sysctls reads those that decide what becomes of packets; one that there is not is
// empty.
func (s *Poller) Sysctls() []string {
	values := make([]string, len(s.sysctls))
	for i := range s.sysctls {
		values[i], _ = s.sysctls[i].read()
	}
	return values
}

// LegacyTables lists the tables of legacy iptables for IPv4 that there are, by name.
func (s *Poller) LegacyTables() ([]string, error) {
	names, err := s.legacy.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(names), nil
}

// MTUsChanged tells whether packets to some pods and peers may be of another size than
// [Read] had found, or pods have an XDP program now: what a route learns of the
// network beyond it is no news, nor is what a pod does to its own device.
func (s *Poller) MTUsChanged(pods []LocalPod, peers []NextHop) bool {
	return slices.ContainsFunc(pods, func(p LocalPod) bool {
		if p.PodEnd == (PodEnd{}) {
			return false
		}
		mtu, xdp, err := s.querier.device(p.PodEnd.NSID, p.PodEnd.Index)
		return err == nil && (mtu != p.PodEnd.MTU || xdp != p.PodEnd.HasXDP) // of one that has gone there is news to come
	}) || slices.ContainsFunc(peers, func(p NextHop) bool {
		if p.Encap == nil {
			return false // what the network beyond can take is the pods' own business
		}
		from, _ := netip.AddrFromSlice(p.Encap.BoundAddr.To4())
		mtu, err := s.querier.routeMTU(p.Encap.Remote, from, p.Encap.LowerDevice)
		return err != nil || mtu != p.RouteMTU
	})
}

// procFile is a file of the kernel's that is read again and again. It is opened when it
// is read first, and again if what it was of has gone: a module comes and goes.
type procFile struct {
	path string
	file *os.File
	text [256]byte // as it was read last: of what is looked at all the time, nothing is longer
}

func (f *procFile) read() (text string, err error) {
	if f.file != nil {
		if text, err = f.reread(); err == nil {
			return text, nil
		}
		f.close()
	}
	if f.file, err = os.Open(f.path); err != nil {
		f.file = nil
		return "", err
	}
	return f.reread()
}

func (f *procFile) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// reread reads the open file from its beginning.
func (f *procFile) reread() (string, error) {
	n, err := f.file.ReadAt(f.text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(f.text[:n]), nil
}
