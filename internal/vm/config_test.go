package vm

import (
	"testing"
	"time"
)

// An emulated machine may be slow, and explicit limits win.
func TestLimits(t *testing.T) {
	kvm, tcg := Config{}.withLimits(KVM), Config{}.withLimits(TCG)
	if tcg.StartLimit <= kvm.StartLimit || tcg.SilenceLimit <= kvm.SilenceLimit || kvm.StartLimit == 0 || kvm.SilenceLimit == 0 {
		t.Errorf("on KVM %v and %v, emulated %v and %v", kvm.StartLimit, kvm.SilenceLimit, tcg.StartLimit, tcg.SilenceLimit)
	}
	if tcg.StartLimit > LongestStart {
		t.Errorf("an emulated machine may take %v to start, and %v is told", tcg.StartLimit, LongestStart)
	}
	for _, accel := range []Accel{KVM, TCG} {
		if c := (Config{StartLimit: time.Second, SilenceLimit: time.Minute}).withLimits(accel); c.StartLimit != time.Second || c.SilenceLimit != time.Minute {
			t.Errorf("%s: given limits became %v and %v", accel, c.StartLimit, c.SilenceLimit)
		}
	}
}
