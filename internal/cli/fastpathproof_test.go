package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/testenv"
)

// While a proof has the journal open, as for all of its budget, "disable" and SIGTERM end the carrying at once. The proof
// is asked to end, and when it has, nothing is left of the fast path. Where there is none, "disable" waits for the proof.
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
		carries, disables bool
		lease             time.Duration // 0: the proof changes only its lab
		killed            bool          // and has left its folder
	}{{carries: true, disables: true}, {carries: true, lease: time.Hour}, {carries: true, disables: true, killed: true}, {disables: true}} {
		var running *exec.Cmd
		if c.carries {
			carries := make(awaited, 1)
			running = startFastpath(t, n, io.MultiWriter(t.Output(), carries), "enable", "--shadow", "0")
			t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() }) // as above
			await("it carries", func() bool { return len(carries) > 0 })
		}
		if c.killed {
			testenv.Must(t, running.Process.Kill())
			_ = running.Wait() // it was killed
		}
		proof, err := journal.Open(options)
		testenv.Must(t, err)
		t.Cleanup(func() { _ = proof.Close() }) // before "disable" above waits for it
		tx, err := proof.BeginProof(c.lease)
		testenv.Must(t, err)
		var text bytes.Buffer
		var disable *exec.Cmd
		said := filepath.Join(t.TempDir(), "said")
		if c.disables {
			file, err := os.Create(said)
			testenv.Must(t, err)
			defer file.Close()
			disable = exec.Command("venturi", "fastpath", "disable")
			disable.Stdout, disable.Stderr = &text, file
			testenv.Must(t, host.Do(n.Path(), disable.Start))
			t.Cleanup(func() { _ = disable.Process.Kill(); _ = disable.Wait() }) // as above
		} else {
			testenv.Must(t, running.Process.Signal(syscall.SIGTERM))
		}
		want := "there is no fast path here\n"
		if c.carries {
			want = "the fast path is disabled and fully removed\n"
			await("the carrying has ended beside the proof", func() bool { return !status().Running })
			await("the proof is asked to end", proof.EndRequested)
		} else {
			awaitText(t, said, "waiting for another venturi")
			if proof.EndRequested() { // which disable does before it says that it waits
				t.Error("the proof is asked to end where there is nothing to disable")
			}
		}
		_, err = proof.Undo([]int{tx.ID()}, journal.UndoOptions{})
		testenv.Must(t, err)
		testenv.Must(t, proof.Close())
		if c.carries && !c.killed {
			testenv.Must(t, running.Wait())
		}
		if c.disables {
			if err := disable.Wait(); err != nil || text.String() != want {
				t.Errorf("%+v: disable ended with %v, and said %q", c, err, &text)
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
