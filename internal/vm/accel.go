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

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
)

const (
	kvmDevice   = "/dev/kvm"
	probeLimit  = 10 * time.Second // for a machine on KVM to get to its first process
	probeMemory = 512              // MiB
	// noHolds is how long it is believed that KVM is not usable: the reason may
	// have been another machine's, or a moment's.
	noHolds = 10 * time.Minute
)

// kvmCache keeps the answer about KVM for the life of this process.
var kvmCache struct {
	sync.Mutex
	answers map[string]answer
}

// answer is whether KVM is usable.
type answer struct {
	Usable bool
	Reason string    // why not; empty: this machine has none
	Asked  time.Time // when it was found out
}

// holds tells whether an answer still does: a "no" may pass.
func (a answer) holds() bool { return a.Usable || time.Since(a.Asked).Abs() < noHolds }

// choose says what the machine runs on, and why not on KVM where there is one
// and nobody said so.
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
		return "", "", c.cannotStart(verr.Missing, why, "run it emulated, without asking for KVM")
	}
	return TCG, a.Reason, nil
}

// kvm finds out whether KVM is usable, for each kernel and qemu. That it is holds
// until this machine boots again, that it is not for a while.
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

// stuck is why a machine that qemu runs does not get to its first process.
type stuck string

func (s stuck) Error() string { return string(s) }

// probe starts a small machine on KVM. kept tells whether the answer is one of
// KVM: what fails before that, such as qemu itself, fails fast and may not fail
// again. The error is the end of ctx.
func (c Config) probe(ctx context.Context, program string) (a answer, kept bool, err error) {
	small := Config{
		Kernel: c.Kernel, Program: c.Program, Name: "probe", CPUs: 1, Memory: probeMemory,
		StartLimit: probeLimit,
	}
	g, err := small.start(ctx, program, KVM)
	if err == nil {
		return answer{Usable: true, Asked: time.Now()}, true, g.Close()
	}
	if ctx.Err() != nil {
		return answer{}, false, err
	}
	why, _, _ := strings.Cut(reason(err), "\n")
	return answer{Reason: strings.TrimSuffix(why, ":"), Asked: time.Now()}, errors.As(err, new(stuck)), nil
}

// reason is the middle part of an error for users.
func reason(err error) string {
	if e := new(verr.Error); errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}

// probeKey is of all on which the answer depends: this boot, the kernel's file
// and that of qemu.
func probeKey(k kernel.Kernel, program string) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot's name: %w", err)
	}
	key := strings.TrimSpace(string(boot)) + " " + k.Release
	for _, file := range []string{k.Image, program} {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		key += fmt.Sprintf(" %s %d %d", file, info.Size(), info.ModTime().UnixNano())
	}
	return key, nil
}

// memoryFolder is where answers are kept for other processes, by root only: who
// could write there could have any guest run slowly. It is empty after a boot.
const memoryFolder = "/run/venturi"

func answerFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(memoryFolder, fmt.Sprintf("kvm-%x.json", sum[:8]))
}

// recall reads a kept answer that holds. One that cannot be read is as good as none.
func recall(key string) (answer, bool) {
	var a answer
	if os.Geteuid() != 0 {
		return a, false
	}
	text, err := os.ReadFile(answerFile(key))
	return a, err == nil && json.Unmarshal(text, &a) == nil && a.holds()
}

// remember keeps an answer. Whoever cannot must ask again next time.
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
