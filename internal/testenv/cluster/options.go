package cluster

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
)

// Options say what the cluster is to be.
type Options struct {
	Name      string // of its folder and its cgroups
	Nodes     int
	Backend   string   // Flannel's, vxlan or host-gw; or calico: pods are wired as Calico wires them
	ProxyMode string   // kube-proxy's: iptables or nftables
	Images    []string // tars that each node imports before it is ready
}

// DefaultName is the cluster that commands mean when none is named.
const DefaultName = "venturi"

// Kinds of networks that the test kernels can carry.
var (
	Backends   = []string{"vxlan", "host-gw", calicoBackend}
	ProxyModes = []string{"iptables", "nftables"}
)

// withDefaults fills in what was left open, and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	if o.Backend == "" {
		o.Backend = Backends[0]
	}
	if o.ProxyMode == "" {
		o.ProxyMode = ProxyModes[0]
	}
	switch {
	case o.Nodes < 1 || o.Nodes > 100:
		return o, fmt.Errorf("%d nodes: give 1 to 100", o.Nodes)
	case !slices.Contains(Backends, o.Backend):
		return o, fmt.Errorf("no backend %q: give one of %q", o.Backend, Backends)
	case !slices.Contains(ProxyModes, o.ProxyMode):
		return o, fmt.Errorf("no proxy mode %q: give one of %q", o.ProxyMode, ProxyModes)
	case filepath.Base(o.Name) != o.Name:
		return o, fmt.Errorf("%q is not a folder name", o.Name)
	}
	return o, nil
}

// Addresses of the cluster, whose networks no other namespace sees.
var (
	controlPlane   = netip.MustParseAddr("10.100.0.1")
	apiService     = netip.MustParseAddr("10.96.0.1")
	nodePrefixBits = 24
)

// apiServer is where the API server is inside the cluster.
var apiServer = fmt.Sprintf("https://%s:%d", controlPlane, apiPort)

const (
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	apiPort        = 6443
)

// nodeName and nodeAddr are what node i, from 1 on, is called and where it is.
func nodeName(i int) string { return "n" + strconv.Itoa(i) }

func nodeAddr(i int) netip.Addr {
	a := controlPlane.As4()
	a[3] = byte(10 + i)
	return netip.AddrFrom4(a)
}

// cache is where binaries and state are kept.
const cache = "/var/cache/venturi/cluster"

// folder is the state of a cluster.
type folder string

func stateFolder(name string) folder { return folder(filepath.Join(cache, "run", name)) }

func (f folder) file(elem ...string) string {
	return filepath.Join(append([]string{string(f)}, elem...)...)
}
func (f folder) options() string      { return f.file("options.json") }
func (f folder) lock() string         { return f.file("lock") }
func (f folder) state() string        { return f.file("state.json") }
func (f folder) kubeconfig() string   { return f.file("kubeconfig") }
func (f folder) toolImage() string    { return f.file("clusterd.tar") }
func (f folder) calicoBlocks() string { return f.data("calico.json") }
func (f folder) log(program string) string {
	return f.file("log", program+".log")
}

// data is in memory, and goes with the keeper.
func (f folder) data(elem ...string) string { return f.file(append([]string{"data"}, elem...)...) }
func (f folder) key(file string) string     { return f.data("pki", file) }
func (f folder) userConfig(user string) string {
	return f.data("kubeconfig", user)
}
