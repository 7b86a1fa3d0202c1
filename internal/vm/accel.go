package vm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
)

const (
	kvmDevice   = "/dev/kvm"
	probeLimit  = 10 * time.Second // for a machine on KVM to reach its first process
	probeMemory = 512              // MiB
	// noHolds is how long a negative answer about KVM stays valid: the reason may have been another
	// virtual machine, or temporary.
	noHolds = 10 * time.Minute
)

// kvmCache caches the answer about KVM for this process.
var kvmCache struct {
	sync.Mutex
	answers map[string]answer
}

// answer says whether KVM is usable.
type answer struct {
	Usable bool
	Reason string    // why not; empty: there is no KVM here
	Asked  time.Time // time of the probe
}

// holds reports whether an answer is still valid; a negative one expires.
func (a answer) holds() bool { return a.Usable || time.Since(a.Asked).Abs() < noHolds }

// choose selects the acceleration. The second result says why it is not KVM, if KVM exists and the
// user made no choice.
func (c Config) choose(ctx context.Context, program string) (Accel, string, error) {
	if c.Accel == TCG {
		return TCG, "", nil
	}
	a, err := c.kvm(ctx, program)
	if err != nil {
		return "", "", err
	}
	switch {
	case a.Usable:
		return KVM, "", nil
	case c.Accel == KVM:
		why := errors.New("this machine has no " + kvmDevice)
		if a.Reason != "" {
			why = fmt.Errorf("KVM is not usable: %s", a.Reason)
		}
		return "", "", c.cannotStart(verr.Missing, why, "run it emulated: do not request KVM")
	}
	return TCG, a.Reason, nil
}

// kvm finds out whether KVM is usable, per kernel and qemu. A positive answer is valid until the
// host reboots, a negative one expires.
func (c Config) kvm(ctx context.Context, program string) (answer, error) {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return answer{}, nil
	}
	if err != nil {
		return answer{Reason: err.Error()}, nil
	}
	f.Close()
	kvmCache.Lock()
	defer kvmCache.Unlock()
	key, err := probeKey(c.Kernel, program)
	if err != nil {
		return answer{}, c.cannotStart(verr.Failed, err, "run the command again")
	}
	if a, ok := kvmCache.answers[key]; ok && a.holds() {
		return a, nil
	}
	a, ok := recall(key)
	if !ok {
		kept := false
		if a, kept, err = c.probe(ctx, program); err != nil || !kept {
			return a, err
		}
		remember(key, a)
	}
	if kvmCache.answers == nil {
		kvmCache.answers = map[string]answer{}
	}
	kvmCache.answers[key] = a
	return a, nil
}

// stuck says why a machine that qemu runs does not reach its first process.
type stuck string

func (s stuck) Error() string { return string(s) }

// probe starts a small machine on KVM. kept reports whether the answer is about KVM itself: other
// failures, such as of qemu, are quick to repeat and may be temporary. The error is the end of ctx.
func (c Config) probe(ctx context.Context, program string) (a answer, kept bool, err error) {
	small := Config{
		Kernel: c.Kernel, Program: c.Program, Name: "probe", CPUs: 1, Memory: probeMemory,
		StartLimit: probeLimit,
	}
	g, err := small.start(ctx, program, KVM, false)
	if err == nil {
		return answer{Usable: true, Asked: time.Now()}, true, g.Close()
	}
	if ctx.Err() != nil {
		return answer{}, false, err
	}
	why, _, _ := strings.Cut(reason(err), "\n")
	return answer{Reason: strings.TrimSuffix(why, ":"), Asked: time.Now()}, errors.As(err, new(stuck)), nil
}

// reason returns the middle part of an error for users.
func reason(err error) string {
	if e := new(verr.Error); errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}

// probeKey identifies what the answer depends on: this boot, the kernel's file and qemu's.
func probeKey(k kernel.Kernel, program string) (string, error) {
	boot, err := host.BootID()
	if err != nil {
		return "", err
	}
	key := boot + " " + k.Release
	for _, file := range []string{k.Image, program} {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		key += fmt.Sprintf(" %s %d %d", file, info.Size(), info.ModTime().UnixNano())
	}
	return key, nil
}

// memoryFolder keeps answers for other processes. Only root may write there, because a false answer
// would slow down every guest. A reboot clears it.
const memoryFolder = "/run/venturi"

func answerFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(memoryFolder, fmt.Sprintf("kvm-%x.json", sum[:8]))
}

// recall reads a stored answer that is valid. It ignores one that it cannot read.
func recall(key string) (answer, bool) {
	var a answer
	if os.Geteuid() != 0 {
		return a, false
	}
	text, err := os.ReadFile(answerFile(key))
	return a, err == nil && json.Unmarshal(text, &a) == nil && a.holds()
}

// remember stores an answer. If that fails, the next process probes again.
func remember(key string, a answer) {
	text, err := json.Marshal(a)
	if err != nil || os.Geteuid() != 0 || os.MkdirAll(memoryFolder, 0o700) != nil {
		return
	}
	file := answerFile(key)
	if os.WriteFile(file+".new", text, 0o600) == nil {
		_ = os.Rename(file+".new", file)
	}
}
