package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

// RunNode is the first process of node i. It begins when its standard input ends, for then
// its device is there.
func RunNode(state string, i int) error {
	io.Copy(io.Discard, os.Stdin)
	n := node{folder: folder(state), Name: nodeName(i), Addr: nodeAddr(i)}
	if err := readJSON(n.options(), &n.setup); err != nil {
		return err
	}
	n.children = newChildren(n.path(n.folder))
	ctx := context.Background()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"mount", n.mount},
		{"configure network", n.configureNetwork},
		{"write configuration", n.writeConfig},
		{"start containerd", n.startContainerd},
		{"start Kubernetes", n.startKubernetes},
		{"write CNI configuration", n.writeCNI},
	} {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", n.Name, step.name, err)
		}
		fmt.Println(step.name, "done")
	}
	select {}
}

// node is what a node's first process knows.
type node struct {
	folder
	setup
	Name     string
	Addr     netip.Addr
	children *children
}

// home is a folder of the node's own.
func (n *node) home(elem ...string) string { return n.data(append([]string{n.Name}, elem...)...) }

// Files that kubelet would write to and that are the whole machine's, with what it wants
// to find there.
var machineSysctls = map[string]string{
	"/proc/sys/vm/overcommit_memory": "1\n",
	"/proc/sys/kernel/panic":         "10\n",
	"/proc/sys/kernel/panic_on_oops": "1\n",
}

// mount gives the node a view of the machine in which all that it writes is its own.
func (n *node) mount(context.Context) error {
	m := mounter{}
	m.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	m.mount("proc", "/proc", "proc", 0, "")
	for _, dir := range []string{"cgroups", "lib", "log", "etc", "etc-work", "sysctl"} {
		m.mkdir(n.home(dir))
	}
	// A sysfs shows the devices of the namespace that mounts it, and hides cgroups.
	m.mount(cgroupRoot, n.home("cgroups"), "", unix.MS_BIND|unix.MS_REC, "")
	m.mount("sysfs", "/sys", "sysfs", 0, "")
	m.mount(n.home("cgroups"), cgroupRoot, "", unix.MS_BIND|unix.MS_REC, "")
	m.unmount(n.home("cgroups"))

	m.mount("tmpfs", "/run", "tmpfs", 0, "mode=755")
	m.mkdir("/run/netns")
	m.mkdir("/run/flannel")
	m.mount(n.home("lib"), "/var/lib", "", unix.MS_BIND, "")
	m.mount(n.home("log"), "/var/log", "", unix.MS_BIND, "")
	m.mount("overlay", "/etc", "overlay", 0, fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", n.home("etc"), n.home("etc-work")))
	m.mkdir("/etc/cni/net.d")
	for file, value := range machineSysctls {
		own := n.home("sysctl", filepath.Base(file))
		m.write(own, value)
		m.mount(own, file, "", unix.MS_BIND, "")
	}
	// kubelet wants to hand mounts on to pods.
	m.mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
	return m.err
}

// mounter does one thing after another until one fails.
type mounter struct{ err error }

func (m *mounter) do(what string, err error) {
	if m.err == nil && err != nil {
		m.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (m *mounter) mount(source, target, kind string, flags uintptr, data string) {
	if m.err == nil {
		m.do("mount "+target, unix.Mount(source, target, kind, flags, data))
	}
}

func (m *mounter) unmount(target string) {
	if m.err == nil {
		m.do("unmount "+target, unix.Unmount(target, unix.MNT_DETACH))
	}
}

func (m *mounter) mkdir(dir string) {
	if m.err == nil {
		m.do("", os.MkdirAll(dir, 0o755))
	}
}

func (m *mounter) write(file, text string) {
	if m.err == nil {
		m.do("", os.WriteFile(file, []byte(text), 0o644))
	}
}

// configureNetwork addresses the node's device, and lets the node forward.
func (n *node) configureNetwork(ctx context.Context) error {
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return err
	}
	_, err := n.children.run(ctx, fmt.Sprintf(`link set lo up
addr add %s/%d dev eth0
link set eth0 up
route add default via %s
`, n.Addr, nodePrefixBits, controlPlane), "ip", "-batch", "-")
	if err != nil {
		return err
	}
	for _, file := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/bridge/bridge-nf-call-iptables"} {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The configurations of a node's programs. All that they know is in [node].
var nodeFiles = map[string]string{
	"containerd.toml": `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE a score cannot be lowered
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.PluginFolder}}"
    conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Opt}}" # else it makes /opt/containerd on the machine
`,
	// An unready node evicts nobody here for want of space: the file systems are the machine's.
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: {{.Cgroup}}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "{{.CA}}"}}
authorization: {mode: Webhook}
`,
	"kube-proxy.yaml": kubeProxyConfig,
	"net-conf.json":   flannelConfig,
}

// Configurations that are ConfigMaps of the cluster, too.
const (
	kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: {{.ProxyMode}}
clusterCIDR: ` + podNetwork + `
hostnameOverride: "{{.Name}}"
oomScoreAdj: 0
clientConnection: {kubeconfig: "{{.ProxyUser}}"}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`
	flannelConfig = `{"Network": "` + podNetwork + `", "Backend": {"Type": "{{.Backend}}"}}
`
)

// Methods that the configurations call.

func (n *node) CA() string        { return n.key("ca.crt") }
func (n *node) Cgroup() string    { return "/" + cgroup(n.setup.Options.Name, n.Name) }
func (n *node) Pause() string     { return ToolImage }
func (n *node) Opt() string       { return n.home("opt") }
func (n *node) ProxyUser() string { return n.userConfig("proxy") }

func (n *node) writeConfig(context.Context) error {
	for name, text := range nodeFiles {
		if err := n.writeTemplate(n.home(name), text); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) writeTemplate(file, text string) error {
	t, err := template.New(file).Parse(text)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, n); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}

// keep runs a daemon of the node.
func (n *node) keep(env []string, args ...string) error {
	return n.children.keep(n.log(n.Name+"-"+args[0]), env, args...)
}

// startContainerd starts containerd, and imports the images.
func (n *node) startContainerd(ctx context.Context) error {
	if err := n.keep(nil, "containerd", "--config", n.home("containerd.toml")); err != nil {
		return err
	}
	err := await(ctx, "containerd answers", 60*time.Second, func() (bool, string) {
		_, err := n.children.run(ctx, "", "ctr", "version")
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	for _, tar := range append([]string{n.toolImage()}, n.Images...) {
		if _, err := n.children.run(ctx, "", "ctr", "--namespace", "k8s.io", "images", "import", tar); err != nil {
			return err
		}
	}
	return nil
}

// startKubernetes starts the node's own programs of Kubernetes, and Flannel, if it is that. flanneld ends,
// and is started again, until the node has its share of the pods' addresses.
func (n *node) startKubernetes(context.Context) error {
	err := n.keep(nil, "kubelet", "--config", n.home("kubelet.yaml"), "--kubeconfig", n.userConfig(n.Name),
		"--hostname-override", n.Name, "--node-ip", n.Addr.String(), "--cert-dir", n.home("kubelet"))
	if err != nil {
		return err
	}
	if n.Backend != calicoBackend {
		err = n.keep([]string{"NODE_NAME=" + n.Name}, "flanneld", "--net-conf", n.home("net-conf.json"), "--kubeconfig", n.userConfig("admin"))
		if err != nil {
			return err
		}
	}
	return n.keep(nil, "kube-proxy", "--config", n.home("kube-proxy.yaml"))
}

// Debian has no flannel plugin for CNI. Flannel's would hand this on to the bridge plugin.
const cniConfig = `{"cniVersion": "0.4.0", "name": "cbr0", "plugins": [
  {"type": "bridge", "bridge": "cni0", "mtu": %s, "isGateway": true, "isDefaultGateway": true, "hairpinMode": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "` + podNetwork + `"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// writeCNI tells containerd of the pod network.
func (n *node) writeCNI(ctx context.Context) error {
	if n.Backend == calicoBackend {
		return n.wireCalico(ctx)
	}
	return n.writeFlannelCNI(ctx)
}

// writeFlannelCNI does that once flanneld has said what the network is.
func (n *node) writeFlannelCNI(ctx context.Context) error {
	var subnet netip.Prefix
	var mtu string
	err := await(ctx, "flanneld writes its subnet", 90*time.Second, func() (bool, string) {
		text, err := os.ReadFile("/run/flannel/subnet.env")
		if err != nil {
			return false, err.Error()
		}
		for _, line := range strings.Split(string(text), "\n") {
			name, value, _ := strings.Cut(line, "=")
			switch name {
			case "FLANNEL_SUBNET":
				subnet, err = netip.ParsePrefix(value)
			case "FLANNEL_MTU":
				mtu = value
			}
		}
		return err == nil && subnet.IsValid() && mtu != "", string(text)
	})
	if err != nil {
		return err
	}
	return installCNI("10-flannel.conflist", fmt.Sprintf(cniConfig, mtu, subnet.Masked()))
}

// installCNI writes a configuration at once: containerd reads whatever there is.
func installCNI(name, text string) error {
	file := filepath.Join("/etc/cni/net.d", name)
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
