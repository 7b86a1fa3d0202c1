package vm

import (
	"testing"
	"time"
)

// An emulated machine may be slow, and explicit limits win.
func TestLimits(t *testing.T) {
	kvm, tcg := Config{}.withLimits(KVM, 2), Config{}.withLimits(TCG, 2)
	if tcg.StartLimit <= kvm.StartLimit || tcg.SilenceLimit <= kvm.SilenceLimit || kvm.StartLimit == 0 || kvm.SilenceLimit == 0 {
		t.Errorf("on KVM %v and %v, emulated %v and %v", kvm.StartLimit, kvm.SilenceLimit, tcg.StartLimit, tcg.SilenceLimit)
	}
	if tcg.StartLimit > LongestStart {
		t.Errorf("an emulated machine may take %v to start, and %v is told", tcg.StartLimit, LongestStart)
	}
	for _, accel := range []Accel{KVM, TCG} {
		if c := (Config{StartLimit: time.Second, SilenceLimit: time.Minute}).withLimits(accel, 2); c.StartLimit != time.Second || c.SilenceLimit != time.Minute {
			t.Errorf("%s: given limits became %v and %v", accel, c.StartLimit, c.SilenceLimit)
		}
	}
}

// A machine has a host's CPUs as far as it boots with them, unless it was told.
func TestCPUs(t *testing.T) {
	for _, c := range []struct {
		accel            Accel
		told, host, want int
	}{
		{KVM, 0, 2, 2},
		{KVM, 0, 384, 64},
		{KVM, 128, 384, 128},
		{TCG, 0, 4, 4},
		{TCG, 0, 32, 8},
		{TCG, 16, 32, 16},
	} {
		if got := (Config{CPUs: c.told}).withLimits(c.accel, c.host).CPUs; got != c.want {
			t.Errorf("%+v: %d CPUs", c, got)
		}
	}
}
