package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// systemPath is where programs of this machine are.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// path is where the cluster's processes look for programs.
func (s setup) path(f folder) string {
	root := s.Programs.Debian
	return strings.Join([]string{f.data("bin"), root + "/usr/bin", root + "/usr/sbin", systemPath}, ":")
}

// Keep is the first process of a cluster. It never returns while that is up.
func Keep(state string) error {
	reports, listener := os.NewFile(3, "reports"), os.NewFile(4, "listener")
	k := keeper{folder: folder(state), say: func(text string) { fmt.Fprintln(reports, text) }}
	if err := k.raise(listener); err != nil {
		k.say(reportFailed + strings.ReplaceAll(err.Error(), "\n", " "))
		return err
	}
	k.say(reportReady)
	reports.Close()
	select {}
}

// keeper is the state of the cluster's first process.
type keeper struct {
	folder
	setup
	children *children
	api      *client
	say      func(string)
}

// raise brings everything up, in this order.
func (k *keeper) raise(listener *os.File) error {
	if err := readJSON(k.options(), &k.setup); err != nil {
		return err
	}
	k.children = newChildren(k.path(k.folder))
	ctx := context.Background()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"mount", k.mount},
		{"write keys", k.writeKeys},
		{"start control plane", k.startControlPlane},
		{"forward the API server's port", func(context.Context) error { return k.forward(listener) }},
		{"start nodes", k.startNodes},
		{"write what kubeadm would", k.writeObjects},
		{"assign pods' addresses", k.writeCalicoBlocks},
		{"wait for nodes", k.awaitNodes},
	} {
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		k.say(fmt.Sprintf("%5.1f s  %s", time.Since(began).Seconds(), step.name))
	}
	return nil
}

// mount keeps the mounts of the cluster to it, and makes the folder that goes with it.
func (k *keeper) mount(ctx context.Context) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", k.data(), "tmpfs", 0, "mode=700"); err != nil {
		return err
	}
	for _, dir := range []string{k.data("bin"), k.data("pki"), k.data("kubeconfig")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unpackKube(k.Programs.Kube, k.data("bin")); err != nil {
		return err
	}
	_, err := k.children.run(ctx, fmt.Sprintf(`link set lo up
link add br0 type bridge
addr add %s/%d dev br0
link set br0 up
`, controlPlane, nodePrefixBits), "ip", "-batch", "-")
	return err
}

func (k *keeper) writeKeys(context.Context) error {
	ca, err := writeKeys(k.folder)
	if err != nil {
		return err
	}
	list := users(k.Nodes)
	if err := writeUsers(k.folder, ca.pem, list); err != nil {
		return err
	}
	k.api, err = newClient(apiServer, ca.pem, list[0].token)
	return err
}

// forward hands connections on to the API server. The socket is one of the machine's own
// namespace, and the connections made are of this one.
func (k *keeper) forward(socket *os.File) error {
	listener, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	socket.Close()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(from.(*net.TCPConn))
		}
	}()
	return nil
}

// relay copies both ways until both ends are done.
func relay(from *net.TCPConn) {
	defer from.Close()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", controlPlane, apiPort), 5*time.Second)
	if err != nil {
		return
	}
	to := conn.(*net.TCPConn)
	defer to.Close()
	done := make(chan struct{})
	go func() {
		io.Copy(to, from)
		to.CloseWrite()
		close(done)
	}()
	io.Copy(from, to)
	from.CloseWrite()
	<-done
}

// startNodes starts the nodes, each in namespaces of its own, and joins them to the bridge.
func (k *keeper) startNodes(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	for i := 1; i <= k.Nodes; i++ {
		if err := k.startNode(ctx, exe, i); err != nil {
			return fmt.Errorf("node %s: %w", nodeName(i), err)
		}
	}
	return nil
}

func (k *keeper) startNode(ctx context.Context, exe string, i int) error {
	log, err := os.Create(k.log(nodeName(i)))
	if err != nil {
		return err
	}
	defer log.Close()
	wait, begin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wait.Close()
	defer begin.Close() // the node begins when its device is there
	pid, _, err := k.children.start(process{
		args: []string{exe, "node", string(k.folder), strconv.Itoa(i)}, stdin: wait, output: log,
		flags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	})
	if err != nil {
		return err
	}
	_, err = k.children.run(ctx, fmt.Sprintf(`link add %[1]s type veth peer name eth0 netns %[2]d
link set %[1]s master br0 up
`, nodeName(i), pid), "ip", "-batch", "-")
	return err
}

// awaitNodes waits until all nodes are ready, and routes the pods' addresses to them.
func (k *keeper) awaitNodes(ctx context.Context) error {
	err := await(ctx, "all nodes Ready", 90*time.Second, func() (bool, string) {
		seen, ready := k.api.nodes(ctx)
		return ready == k.Nodes, seen
	})
	if err != nil {
		return err
	}
	routes, err := k.api.podRoutes(ctx)
	if err != nil {
		return err
	}
	_, err = k.children.run(ctx, routes, "ip", "-batch", "-")
	return err
}

// keep runs a daemon of the control plane.
func (k *keeper) keep(program string, args ...string) error {
	return k.children.keep(k.log(program), nil, append([]string{program}, args...)...)
}

// startControlPlane starts what a control plane is, and waits for the API server.
func (k *keeper) startControlPlane(ctx context.Context) error {
	const etcd = "http://127.0.0.1:2379"
	if err := k.keep("etcd", "--data-dir", k.data("etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd, "--advertise-client-urls", etcd); err != nil {
		return err
	}
	if err := k.keep("kube-apiserver",
		"--etcd-servers", etcd,
		"--bind-address", controlPlane.String(), "--advertise-address", controlPlane.String(), "--secure-port", strconv.Itoa(apiPort),
		"--tls-cert-file", k.key("apiserver.crt"), "--tls-private-key-file", k.key("apiserver.key"), "--client-ca-file", k.key("ca.crt"),
		"--kubelet-client-certificate", k.key("kubelet-client.crt"), "--kubelet-client-key", k.key("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP", // nobody resolves names of nodes
		"--cert-dir", k.data("pki"),
		"--token-auth-file", k.key("tokens.csv"), "--authorization-mode", "Node,RBAC", "--allow-privileged",
		"--service-cluster-ip-range", serviceNetwork,
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", k.key("sa.key"), "--service-account-signing-key-file", k.key("sa.key"),
	); err != nil {
		return err
	}
	err := await(ctx, "API server ready", 90*time.Second, func() (bool, string) {
		err := k.api.get(ctx, "/readyz", nil)
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	if err := k.keep("kube-controller-manager", append(k.identity("controller-manager"),
		"--cluster-cidr", podNetwork, "--allocate-node-cidrs",
		"--kube-api-qps", "1000", "--kube-api-burst", "1000", // a test may make a thousand Services
		"--service-account-private-key-file", k.key("sa.key"), "--root-ca-file", k.key("ca.crt"),
		"--use-service-account-credentials")...); err != nil {
		return err
	}
	return k.keep("kube-scheduler", k.identity("scheduler")...)
}

// identity is how a part of the control plane knows the API server, and itself.
func (k *keeper) identity(user string) []string {
	config := k.userConfig(user)
	return []string{
		"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
		"--leader-elect=false", "--cert-dir", filepath.Join(k.data("pki"), user),
	}
}
