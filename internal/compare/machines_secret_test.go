package compare

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/reach"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// onlooker keeps all that others can see of a run: command lines and environments of
// processes on this machine and, which are among them, on the others; and what is said.
type onlooker struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *onlooker) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file) // it may have ended
			o.text.Write(text)
		}
	}
}

func (o *onlooker) Event(e experiment.Event) {
	o.look()
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.text, "%+v", e)
}

func (o *onlooker) Say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.text, format, args...)
}

// The secrets of a run are in no command line, environment, message or record.
func TestSecretsDoNotShow(t *testing.T) {
	a, b := testenv.NewSSHMachine(t, "client"), testenv.NewSSHMachine(t, "server")
	testenv.Join(t, a, b)
	for _, m := range []*testenv.SSHMachine{a, b} {
		testenv.Must(t, os.WriteFile(m.Root()+secretsFile, nil, 0o600))
	}
	out := t.TempDir()
	q := Request{
		Paths: []string{"host"}, Loads: []string{"tcp_lat"}, Series: 3, Rounds: 3, Slice: 20 * time.Millisecond, Out: out,
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: "client"}, {Name: "b", Host: "server"}},
			Options:  remote.Options{Program: testenv.Program(t)[0], SSH: testenv.SSHCommand(t, a, b)},
		},
	}
	watch := &onlooker{}
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: watch})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(rec)
	testenv.Must(t, err)
	watch.text.Write(text)
	testenv.Must(t, filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		watch.text.Write(text)
		return err
	}))
	if seen := watch.text.String(); !strings.Contains(seen, "agent\x00--stdio") || !strings.Contains(seen, "tcp_lat") {
		t.Fatal("neither the agents' command lines nor the record were seen")
	}
	secrets, err := os.ReadFile(a.Root() + secretsFile)
	testenv.Must(t, err)
	if len(secrets) < (1+3)*32 || len(secrets)%32 != 0 {
		t.Fatalf("the client's agent had secrets of %d bytes, want those of the trial and of three series", len(secrets))
	}
	for ; len(secrets) > 0; secrets = secrets[32:] {
		secret := secrets[:32]
		for form, text := range map[string]string{
			"bytes": string(secret), "hex": hex.EncodeToString(secret), "base64": base64.StdEncoding.EncodeToString(secret),
			"numbers": strings.Trim(fmt.Sprint(secret), "[]"), "JSON": strings.ReplaceAll(strings.Trim(fmt.Sprint(secret), "[]"), " ", ","),
		} {
			if bytes.Contains(watch.text.Bytes(), []byte(text)) {
				t.Errorf("a secret shows, as %s", form)
			}
		}
	}
}

// secretsFile gets the secrets of an agent's trials, and the nonces of its series, if it is there.
const secretsFile = "/run/ssh/nonces"

// runAgent is the role of an agent, which writes them there.
func runAgent(args []string) int {
	file, err := os.OpenFile(secretsFile, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return agenttest.RunAgent(args)
	}
	calls := new(reach.Listeners).Calls()
	for name, call := range calls {
		calls[name] = func(ctx context.Context, body []byte) ([]byte, error) {
			var trials reach.Trials
			if err := json.Unmarshal(body, &trials); err == nil && len(trials.Trials) > 0 {
				_, _ = file.Write(trials.Secret[:])
			}
			return call(ctx, body)
		}
	}
	return agenttest.RunAgentWith(agent.Engine{
		Serve: func(p load.Plan, o engine.SliceObserver, guests engine.GuestDialer) (engine.GuestServer, error) {
			_, _ = file.Write(p.Nonce[:])
			return engine.Serve(p, o, guests)
		},
		Run: func(ctx context.Context, p load.Plan, o engine.SliceObserver, guests engine.GuestDialer) ([]load.SliceResult, error) {
			_, _ = file.Write(p.Nonce[:])
			return engine.Run(ctx, p, o, guests)
		},
	}, calls, args)
}
