package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// calicoBackend has no program of Calico's, which no registry serves: a plugin for CNI wires pods as
// Calico's does, and routes lead to nodes as BIRD writes them, without encapsulation. There are no rules
// of Felix: a test that wants them writes them.
const calicoBackend = "calico"

// calicoMTU leaves room for VXLAN's headers, as Calico does where a pool may use it.
const calicoMTU = 1450

// calicoBlock is the block of addresses that a node's pods have.
type calicoBlock struct {
	Node  string
	Addr  netip.Addr // of the node
	Block netip.Prefix
}

// writeCalicoBlocks tells nodes of all blocks, once the controller manager has assigned them.
func (k *keeper) writeCalicoBlocks(ctx context.Context) error {
	if k.Backend != calicoBackend {
		return nil
	}
	var blocks []calicoBlock
	err := await(ctx, "all nodes have addresses for pods", 90*time.Second, func() (bool, string) {
		var list nodeList
		if err := k.api.get(ctx, "/api/v1/nodes", &list); err != nil {
			return false, err.Error()
		}
		blocks = nil
		for i := 1; i <= k.Nodes; i++ {
			for _, n := range list.Items {
				if block, err := netip.ParsePrefix(n.Spec.PodCIDR); err == nil && n.Metadata.Name == nodeName(i) {
					blocks = append(blocks, calicoBlock{nodeName(i), nodeAddr(i), block})
				}
			}
		}
		return len(blocks) == k.Nodes, fmt.Sprintf("%+v", blocks)
	})
	if err != nil {
		return err
	}
	return writeJSON(k.calicoBlocks(), blocks)
}

// PluginFolder is where containerd finds plugins for CNI.
func (n *node) PluginFolder() string {
	if n.Backend == calicoBackend {
		return n.home("cni")
	}
	return n.debianPlugins()
}

func (n *node) debianPlugins() string { return filepath.Join(n.Programs.Debian, "usr/lib/cni") }

const calicoConfig = `{"cniVersion": "0.4.0", "name": "k8s-pod-network", "plugins": [
  {"type": "calico", "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]]}},
  {"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}
]}
`

// wireCalico routes the blocks of pods' addresses, and tells containerd of this node's.
func (n *node) wireCalico(ctx context.Context) error {
	var blocks []calicoBlock
	err := await(ctx, "the blocks of addresses are known", 90*time.Second, func() (bool, string) {
		err := readJSON(n.calicoBlocks(), &blocks)
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	var routes, config string
	for _, b := range blocks {
		if b.Node == n.Name {
			routes += fmt.Sprintf("route replace blackhole %s proto bird\n", b.Block)
			config = fmt.Sprintf(calicoConfig, b.Block)
			continue
		}
		routes += fmt.Sprintf("route replace %s via %s dev eth0 proto bird\n", b.Block, b.Addr)
	}
	if _, err := n.children.run(ctx, routes, "ip", "-batch", "-"); err != nil {
		return err
	}
	if err := n.linkPlugins(); err != nil {
		return err
	}
	return installCNI("10-calico.conflist", config)
}

// linkPlugins makes the folder of plugins: Debian's, and this program as Calico's.
func (n *node) linkPlugins() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	plugins, err := os.ReadDir(n.debianPlugins())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.PluginFolder(), 0o755); err != nil {
		return err
	}
	for _, plugin := range plugins {
		if err := os.Symlink(filepath.Join(n.debianPlugins(), plugin.Name()), filepath.Join(n.PluginFolder(), plugin.Name())); err != nil {
			return err
		}
	}
	return os.Symlink(exe, filepath.Join(n.PluginFolder(), "calico"))
}

// cniResult is what a plugin prints.
type cniResult struct {
	Version    string         `json:"cniVersion"`
	Interfaces []cniInterface `json:"interfaces,omitempty"`
	IPs        []cniAddress   `json:"ips,omitempty"`
}

type cniInterface struct {
	Name    string `json:"name"`
	Mac     string `json:"mac,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
}

type cniAddress struct {
	Version   string       `json:"version"`
	Interface int          `json:"interface"`
	Address   netip.Prefix `json:"address"`
}

// CalicoCNI is the plugin: a pod has a single address and a gateway that its node answers for, and its
// device on the node is called cali and a hash. Its neighbour entry is Felix's in Calico.
func CalicoCNI(in io.Reader, out io.Writer) error {
	config, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	device, err := calicoDevice(os.Getenv("CNI_ARGS"))
	switch command := os.Getenv("CNI_COMMAND"); {
	case command == "VERSION":
		_, err := fmt.Fprintln(out, `{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}`)
		return err
	case err != nil:
		return err
	case command == "DEL":
		_ = runInput("", "ip", "link", "del", device) // it may have gone with the pod's namespace
		_, err := hostLocal(config)
		return err
	case command != "ADD":
		return nil
	}
	answer, err := hostLocal(config)
	if err != nil {
		return err
	}
	var result cniResult
	if err := json.Unmarshal(answer, &result); err != nil || len(result.IPs) != 1 {
		return errors.Join(err, fmt.Errorf("host-local says %s", answer))
	}
	addr := result.IPs[0].Address.Addr()
	mac, err := wireCalicoPod(device, os.Getenv("CNI_NETNS"), os.Getenv("CNI_IFNAME"), addr)
	if err != nil {
		return err
	}
	result.Interfaces = []cniInterface{{Name: device}, {Name: os.Getenv("CNI_IFNAME"), Mac: mac, Sandbox: os.Getenv("CNI_NETNS")}}
	result.IPs = []cniAddress{{"4", 1, netip.PrefixFrom(addr, addr.BitLen())}}
	return json.NewEncoder(out).Encode(result)
}

// calicoDevice is what a pod's device is called on its node.
func calicoDevice(args string) (string, error) {
	words := map[string]string{}
	for _, arg := range strings.Split(args, ";") {
		name, value, _ := strings.Cut(arg, "=")
		words[name] = value
	}
	pod := words["K8S_POD_NAMESPACE"] + "." + words["K8S_POD_NAME"]
	if pod == "." {
		return "", fmt.Errorf("no pod is named in %q", args)
	}
	return "cali" + fmt.Sprintf("%x", sha1.Sum([]byte(pod)))[:11], nil
}

// hostLocal has the plugin that keeps addresses do what this one was told to.
func hostLocal(config []byte) (answer []byte, err error) {
	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(os.Getenv("CNI_PATH"), "host-local"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(config), &said
	if answer, err = cmd.Output(); err != nil {
		err = fmt.Errorf("host-local: %w: %s%s", err, answer, said.Bytes())
	}
	return answer, err
}

// wireCalicoPod makes the pair of devices, and routes the pod's address to it.
func wireCalicoPod(device, netns, podDevice string, addr netip.Addr) (mac string, err error) {
	hardware := make(net.HardwareAddr, 6)
	if _, err := rand.Read(hardware[1:]); err != nil {
		return "", err
	}
	hardware[0] = 0x02
	err = runInput(fmt.Sprintf(`link add %[1]s address %[2]s mtu %[3]d type veth peer name %[4]s address ee:ee:ee:ee:ee:ee mtu %[3]d
link set %[1]s up
route add 169.254.1.1 dev %[1]s scope link
route add default via 169.254.1.1 dev %[1]s
addr add %[5]s/32 dev %[1]s
link set %[4]s netns %[6]d
`, podDevice, hardware, calicoMTU, device, addr, os.Getpid()), "nsenter", "--net="+netns, "ip", "-batch", "-")
	if err != nil {
		return "", err
	}
	for _, s := range []struct{ file, value string }{
		{"/proc/sys/net/ipv4/conf/" + device + "/route_localnet", "1"},
		{"/proc/sys/net/ipv4/neigh/" + device + "/proxy_delay", "0"},
		{"/proc/sys/net/ipv4/conf/" + device + "/proxy_arp", "1"},
		{"/proc/sys/net/ipv4/conf/" + device + "/forwarding", "1"},
		{"/proc/sys/net/ipv6/conf/" + device + "/accept_ra", "0"},
	} {
		if err := os.WriteFile(s.file, []byte(s.value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return hardware.String(), runInput(fmt.Sprintf(`link set %[1]s up
route add %[2]s/32 dev %[1]s scope link
neigh replace %[2]s lladdr %[3]s dev %[1]s nud permanent
`, device, addr, hardware), "ip", "-batch", "-")
}

// runInput runs a program to its end.
func runInput(input string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
