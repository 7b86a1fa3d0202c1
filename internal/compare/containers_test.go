package compare

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/ociimage"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/result"
)

// runtimePackages are Debian's container runtimes, with the libraries that they need.
var runtimePackages = []string{
	"podman", "golang-github-containers-common", "golang-github-containers-image", "conmon", "crun", "runc", "docker.io", "containerd",
	"libassuan0", "libdevmapper1.02.1", "libglib2.0-0", "libgpgme11", "libseccomp2", "libsubid4", "libsystemd0", "libyajl2",
}

// containerHost is a machine with container runtimes.
type containerHost struct {
	t       *testing.T
	machine *testenv.SSHMachine
	cgroup  string // that of all containers
}

// newContainerHost unpacks runtimes over the machine's folders: nothing is installed, and what the
// machine has itself counts first.
func newContainerHost(t *testing.T, m *testenv.SSHMachine, cgroup string) *containerHost {
	t.Helper()
	if err := cluster.UnpackDebian(t.Context(), t.TempDir(), m.Root()+"/run/packages", runtimePackages...); err != nil {
		if testenv.Required() {
			t.Fatal(err)
		}
		t.Skipf("the container runtimes of Debian cannot be had: %v", err)
	}
	h := &containerHost{t, m, cgroup}
	h.do(`cd /run; chmod 755 .; cp -r packages/lib/. packages/usr/lib; mkdir etc etc-work
mount -t overlay none -o lowerdir=/usr:/run/packages/usr /usr
mount -t overlay none -o lowerdir=/etc:/run/packages/etc,upperdir=/run/etc,workdir=/run/etc-work /etc
printf '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="none"\n[containers]\ncgroupns="host"\n' >/etc/containers/containers.conf
printf '[storage]\ndriver="vfs"\nrunroot="/run/containers/storage"\ngraphroot="/var/lib/containers/storage"\n' >/etc/containers/storage.conf`)
	var image strings.Builder
	testenv.Must(t, ociimage.Image{Name: imageName, Arch: runtime.GOARCH, User: "0:0", Files: []ociimage.File{{Path: "etc/", Mode: 0o755}}}.Write(&image))
	testenv.Must(t, os.WriteFile(m.Root()+"/run/image.tar", []byte(image.String()), 0o600))
	return h
}

// imageName is of an image without files: programs are the machine's.
const imageName = "venturi.test/empty:1"

// do runs a script in the machine, and gives what it says on standard output.
func (h *containerHost) do(script string) string {
	h.t.Helper()
	cmd := h.machine.Command("timeout", "120", "sh", "-ec", script)
	// Files, for a runtime's daemon keeps a pipe open.
	var said [2]*os.File
	for i := range said {
		f, err := os.CreateTemp(h.t.TempDir(), "said")
		testenv.Must(h.t, err)
		defer f.Close()
		said[i] = f
	}
	cmd.Stdout, cmd.Stderr = said[0], said[1]
	err := cmd.Run()
	out, _ := os.ReadFile(said[0].Name())
	if err != nil {
		text, _ := os.ReadFile(said[1].Name())
		h.t.Fatalf("%s: %v: %s%s", script, err, out, text)
	}
	return strings.TrimSpace(string(out))
}

// containersCgroup names a cgroup for containers, which is removed once their machine has ended:
// so it is made before that.
func containersCgroup(t *testing.T) string {
	name := fmt.Sprintf("venturi-test-%d", os.Getpid())
	remaining := func() (folders []string) {
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(path, name) {
				folders = append(folders, path)
			}
			return nil
		})
		return folders
	}
	t.Cleanup(func() {
		folders := remaining()
		for end := time.Now().Add(host.ScaleTimeout(time.Minute)); len(folders) > 0 && time.Now().Before(end); folders = remaining() {
			for _, folder := range slices.Backward(folders) {
				_ = os.Remove(folder) // one whose processes have not ended yet is tried again
			}
			time.Sleep(50 * time.Millisecond)
		}
		if len(folders) > 0 {
			t.Errorf("cgroups that are left: %v", folders)
		}
	})
	return name
}

// runningContainer is one that a runtime has started.
type runningContainer struct {
	id    string
	names []string
	addr  string
}

// start runs a container, and gives its network a device of the machine's, with an address by which
// it is known. The script run prints its id, and inspect, in which ID stands for that, the number of
// its process.
func (h *containerHost) start(n int, run, inspect string, names ...string) runningContainer {
	h.t.Helper()
	c := runningContainer{names: names, addr: fmt.Sprintf("198.51.100.%d", n)}
	c.id = h.do(strings.ReplaceAll(run, "CGROUP", h.cgroup))
	pid := h.do(strings.ReplaceAll(inspect, "ID", c.id))
	h.do(fmt.Sprintf(`ip link add pod0 link eth0 netns %s type macvlan mode bridge
nsenter --target %[1]s --net ip address add %s/24 dev pod0; nsenter --target %[1]s --net ip link set pod0 up`, pid, c.addr))
	return c
}

// Containers of real runtimes are found by their names, and by how their ids begin.
func TestContainerRuntimes(t *testing.T) {
	testenv.NeedsLong(t)
	cgroup := containersCgroup(t)
	m := joined(t)
	m[1].Do(t, "ip", "address", "add", "198.51.100.100/24", "dev", "eth0")
	h := newContainerHost(t, m[0], cgroup)
	const (
		files   = " -v /usr:/usr:ro -v /lib:/lib:ro -v /lib64:/lib64:ro --network none "
		command = " " + imageName + " /usr/bin/sleep 1000"
		inspect = " inspect --format '{{.State.Pid}}' ID"
		docker  = "/usr/bin/docker -H unix:///run/docker.sock"
	)
	h.do("podman load -qi /run/image.tar")
	// crun refuses to run where version 1 and 2 of cgroups are both in use.
	crun := h.start(1, `if [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then mount -t cgroup2 none /sys/fs/cgroup; fi
podman --runtime crun run -d --cgroups=disabled --name db`+files+command, "podman"+inspect, "db")
	h.do(`umount /sys/fs/cgroup || true`)
	runc := h.start(2, "podman --runtime runc run -d --cgroup-parent CGROUP --name api"+files+command, "podman"+inspect, "api")
	h.do(`/usr/sbin/dockerd -H unix:///run/docker.sock --iptables=false --bridge=none --storage-driver vfs --exec-opt native.cgroupdriver=cgroupfs >/run/dockerd.log 2>&1 &
for i in $(seq 300); do ` + docker + ` version >/dev/null 2>&1 && exit; sleep 0.2; done; tail -n 20 /run/dockerd.log >&2; exit 1`)
	h.do(docker + " load -qi /run/image.tar")
	moby := h.start(3, docker+" run -d --cgroup-parent /CGROUP --name web"+files+command, docker+inspect, "web")
	h.do(`containerd >/run/containerd.log 2>&1 &
for i in $(seq 300); do ctr version >/dev/null 2>&1 && exit; sleep 0.2; done; tail -n 20 /run/containerd.log >&2; exit 1`)
	h.do("ctr image import --snapshotter native /run/image.tar")
	mount := ""
	for _, folder := range []string{"/usr", "/lib", "/lib64"} {
		mount += " --mount type=bind,src=" + folder + ",dst=" + folder + ",options=rbind:ro"
	}
	containerd := h.start(4, "ctr run -d --snapshotter native --cgroup /CGROUP/cache --annotation nerdctl/name=shop"+mount+" "+imageName+
		" cache-of-the-shop /usr/bin/sleep 1000 >&2; echo cache-of-the-shop", "ctr task ls | awk '$1 == \"ID\" {print $2}'", "shop")

	q := onCards(t, m)
	q.Remote.Dev = ""
	wanted := map[string]string{} // addresses, by the arms' names
	for i, c := range []runningContainer{crun, runc, moby, containerd} {
		for k, name := range append(c.names, c.id, c.id[:12]) {
			arm := fmt.Sprintf("c%d-%d", i, k)
			q.Paths = append(q.Paths, "attach:"+arm+",from=a/container:"+name+",to=b/self")
			wanted[arm] = c.addr
		}
	}
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	testenv.Must(t, err)
	measured(t, rec)
	for _, arm := range rec.Plan.Arms {
		if want := wanted[arm.Name]; arm.Role != result.RoleCopy && arm.From != want {
			t.Errorf("%s (%s) is from %s, want %s", arm.Name, arm.Options, arm.From, want)
		}
	}

	h.do(docker + " rm --force web >&2")
	q.Paths, q.Out = []string{"attach:from=a/container:web,to=b/self"}, t.TempDir()
	_, _, err = Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err == nil || !strings.Contains(err.Error(), "no container of that name") {
		t.Errorf("a container that was removed: %v", err)
	}
}
