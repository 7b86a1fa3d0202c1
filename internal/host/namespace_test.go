package host_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

const currentNetns = "/proc/thread-self/ns/net"

func TestDoWithoutNamespace(t *testing.T) {
	want := errors.New("mine")
	if err := host.Do("", func() error { return want }); err != want {
		t.Errorf("Do = %v, want what the function returned", err)
	}
	if err := host.Do("/no/such/file", func() error { t.Error("it ran"); return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Do = %v, want %v", err, os.ErrNotExist)
	}
}

// A function that ends its goroutine does not leave the caller waiting.
func TestInThreadGoexit(t *testing.T) {
	if err := host.InThread(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("InThread = nil for a function that did not return")
	}
}

func TestIDOfAFile(t *testing.T) {
	if _, err := host.ID("/etc/hostname"); err == nil {
		t.Error("a plain file passed for a namespace")
	}
}

// Many at once: fn is in its namespace, and no thread that the runtime uses
// afterwards is.
func TestDo(t *testing.T) {
	l := testenv.Lab(t, lab.Options{})
	home, err := host.ID(currentNetns)
	testenv.Must(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		space := l.Machines[i%2].Namespace
		wg.Go(func() {
			want, err := host.ID(space)
			if err != nil {
				t.Error(err)
			}
			err = host.Do(space, func() error {
				for range 10 {
					if now, err := host.ID(currentNetns); err != nil || now != want {
						t.Errorf("inside of %v (%v), want %v", now, err, want)
					}
					runtime.Gosched()
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	threads, err := os.ReadDir("/proc/self/task")
	testenv.Must(t, err)
	for _, thread := range threads {
		now, err := host.ID("/proc/self/task/" + thread.Name() + "/ns/net")
		if err == nil && now != home {
			t.Errorf("thread %s is in %v, want %v", thread.Name(), now, home)
		}
	}
}

func TestProcessesIn(t *testing.T) {
	l := testenv.Lab(t, lab.Options{})
	id, err := host.ID(l.Machines[0].Namespace)
	testenv.Must(t, err)
	if pids, err := (host.Reader{}).ProcessesIn(id); err != nil || len(pids) != 0 {
		t.Errorf("processes in a lab without agents: %v, %v", pids, err)
	}
	own, err := host.ID("/proc/self/ns/net")
	testenv.Must(t, err)
	if pids, err := (host.Reader{}).ProcessesIn(own); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("this process is not in its own namespace: %v, %v", pids, err)
	}
}

// A namespace is called by its name, if it has one, whatever else it was found by.
func TestNamedFile(t *testing.T) {
	l := testenv.Lab(t, lab.Options{})
	space := l.Machines[0].Namespace
	testenv.Must(t, host.Do(space, func() error {
		if got := host.NamedFile(currentNetns); got != space {
			t.Errorf("inside of it: %s, want %s", got, space)
		}
		return nil
	}))
	for _, path := range []string{currentNetns, "/no/such/file"} {
		if got := host.NamedFile(path); got != path {
			t.Errorf("%s is called %s", path, got)
		}
	}
}

// Processes of the machine are out of sight in any PID namespace but the first.
func TestSeesAllProcesses(t *testing.T) {
	for name, want := range map[string]bool{"pid:[4026531836]": true, "pid:[4026532201]": false, "": false} {
		root := t.TempDir()
		testenv.Must(t, os.MkdirAll(root+"/proc/self/ns", 0o755))
		if name != "" {
			testenv.Must(t, os.Symlink(name, root+"/proc/self/ns/pid"))
		}
		if got := (host.Reader{Root: root}).SeesAllProcesses(); got != want {
			t.Errorf("in %q: %v, want %v", name, got, want)
		}
	}
}
