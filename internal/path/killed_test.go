package path_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Whenever a process that builds a lab or takes it down is killed, a sweep
// finds and removes all that it left. Paths that consist of nothing but devices
// are raised in no time and killed often; those with daemons are slow, and the
// kills are spread over all of that time.
func TestKilledWhileBuilding(t *testing.T) {
	var devices, everything []string
	for _, v := range pick(t, first) {
		spec := v.text(t, lab.DefaultWire().MTU)
		everything = append(everything, spec)
		if v.pairable {
			devices = append(devices, spec)
		}
	}
	often, seldom := 8, 4
	if testenv.Long() {
		often, seldom = 15, 7
	}
	t.Run("devices", func(t *testing.T) { killBuilders(t, devices, often, false) })
	t.Run("everything", func(t *testing.T) { killBuilders(t, everything, seldom, true) })
}

// killBuilders kills builders of the paths, some of them while daemons run if
// the paths have such.
func killBuilders(t *testing.T, paths []string, kills int, daemons bool) {
	testenv.Root(t)
	start := time.Now()
	l, err := lab.Up(t.Context(), lab.Options{Name: testenv.LabName(), Paths: paths, Services: 20, Program: testenv.Program(t)})
	testenv.Must(t, err)
	testenv.Must(t, l.Down())
	took := time.Since(start)
	halfBuilt, running := 0, 0
	for i := range kills {
		name := testenv.LabName()
		// Some time in the i-th part of the whole.
		killBuilder(t, append([]string{name}, paths...), time.Duration((float64(i)+rand.Float64())/float64(kills)*float64(took)))
		if len(namespacesOf(t, name)) > 0 {
			halfBuilt++
		}
		running += len(processesOf(t, name))
		removed, err := lab.Sweep(t.Context())
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		nothingOf(t, name)
		if again, err := lab.Sweep(t.Context()); err != nil || slices.Contains(again, name) {
			t.Fatalf("second sweep: %v, %v (the first removed %v)", again, err, removed)
		}
	}
	t.Logf("built and taken down in %v; %d of %d left something, and %d processes", took.Round(time.Millisecond), halfBuilt, kills, running)
	if halfBuilt == 0 {
		t.Errorf("of %d builders not one was killed with a lab half built: the test proves nothing", kills)
	}
	if daemons && running == 0 {
		t.Errorf("of %d builders not one was killed while a daemon ran: the test proves nothing of them", kills)
	}
}

// killBuilder kills a builder some time after its start.
func killBuilder(t *testing.T, args []string, after time.Duration) {
	t.Helper()
	command := append(testenv.RoleCommand(t, "builder"), args...)
	cmd := exec.Command(command[0], command[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	testenv.Must(t, cmd.Start())
	time.Sleep(after)
	testenv.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if said.Len() > 0 {
		t.Fatalf("builder: %s", &said)
	}
}

func namespacesOf(t *testing.T, name string) []string {
	t.Helper()
	all, err := netcfg.Namespaces()
	testenv.Must(t, err)
	return slices.DeleteFunc(all, func(n string) bool { return !strings.HasPrefix(n, netcfg.Mark+name+".") })
}

// processesOf lists the processes that were told of a file in the lab's folder.
func processesOf(t *testing.T, name string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	testenv.Must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		command := strings.Join(host.Reader{}.Command(pid), " ")
		if strings.Contains(command, filepath.Join(lab.Folder, name)+"/") {
			list = append(list, e.Name()+" "+command)
		}
	}
	return list
}

func nothingOf(t *testing.T, name string) {
	t.Helper()
	if left := namespacesOf(t, name); len(left) > 0 {
		t.Errorf("namespaces are left: %v", left)
	}
	if left := processesOf(t, name); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
	if _, err := os.Stat(filepath.Join(lab.Folder, name)); !os.IsNotExist(err) {
		t.Errorf("folder of the lab is left (%v)", err)
	}
	labs, err := lab.List(t.Context())
	testenv.Must(t, err)
	for _, l := range labs {
		if l.Name == name {
			t.Errorf("lab is still listed: %+v", l)
		}
	}
}
