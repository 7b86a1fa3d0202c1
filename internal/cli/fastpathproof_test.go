package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/testenv"
)

// While a proof has the journal open, as for all of its budget, "disable" and SIGTERM end the carrying at once. The proof
// is asked to end, and when it has, nothing is left of the fast path.
func TestFastpathEndsBesideProof(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(testenv.Timeout); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after %v, not so: %s", testenv.Timeout, what)
			}
		}
	}
	status := func() (s node.Status) {
		testenv.InNetns(t, n.Path(), func() (err error) {
			s, err = node.ReadStatus()
			return err
		})
		return s
	}
	options := journal.Options{Folder: os.Getenv(journal.FolderVariable), Settings: thisMachine().Settings, Wait: testenv.Timeout}
	t.Cleanup(func() { testenv.Must(t, startFastpath(t, n, t.Output(), "disable").Wait()) }) // when it has failed
	for _, c := range []struct {
		disables bool
		lease    time.Duration // 0: the proof changes only its lab
	}{{true, 0}, {false, time.Hour}} {
		carries := make(awaited, 1)
		running := startFastpath(t, n, io.MultiWriter(t.Output(), carries), "enable", "--shadow", "0")
		t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() }) // as above
		await("it carries", func() bool { return len(carries) > 0 })
		proof, err := journal.Open(options)
		testenv.Must(t, err)
		t.Cleanup(func() { _ = proof.Close() }) // before "disable" above waits for it
		tx, err := proof.BeginProof(c.lease)
		testenv.Must(t, err)
		end := func() error { return running.Process.Signal(syscall.SIGTERM) }
		var said bytes.Buffer
		if c.disables {
			disable := exec.Command("venturi", "fastpath", "disable")
			disable.Stdout, disable.Stderr = &said, t.Output()
			testenv.Must(t, host.Do(n.Path(), disable.Start))
			end = disable.Wait
		} else {
			testenv.Must(t, end())
		}
		await("the carrying has ended beside the proof", func() bool { return !status().Running })
		await("the proof is asked to end", proof.EndRequested)
		_, err = proof.Undo([]int{tx.ID()}, journal.UndoOptions{})
		testenv.Must(t, err)
		testenv.Must(t, proof.Close())
		testenv.Must(t, running.Wait())
		if c.disables {
			if err := end(); err != nil || said.String() != "the fast path is disabled and fully removed\n" {
				t.Errorf("disable ended with %v, and said %q", err, &said)
			}
		}
		after, err := journal.Open(options)
		testenv.Must(t, err)
		for _, txn := range after.History().Txns {
			if txn.Open() {
				t.Errorf("%+v: transaction %d is open: %+v", c, txn.ID, txn)
			}
		}
		testenv.Must(t, after.Close())
		if status().Enabled {
			t.Errorf("%+v: its folder is left", c)
		}
	}
}
