package knob_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestNotrack(t *testing.T) {
	testenv.Root(t)
	b, on := benchOn(t, ""), netns(t)
	b.turns("ct.notrack", on, "on", "4789,6081,8472")
	b.turns("ct.notrack", on, "4789, 1", "4789,1")
	b.turns("ct.notrack", on, "off", "off")
	b.refused("ct.notrack", on, verr.Usage, "0", "4789,4789", "", "vxlan", "70000")
	r := entry(t, "ct.notrack").Knob.(knob.Ranger)
	if worth, err := r.Range(b.m, on); err != nil || len(worth) != 1 || worth[0] != "on" {
		t.Errorf("worth a trial: %q, %v", worth, err)
	}
	if err := b.set("ct.notrack", on, "8472"); err != nil {
		t.Fatal(err)
	}
	if worth, err := r.Range(b.m, on); err != nil || len(worth) != 0 {
		t.Errorf("worth a trial when it is on: %q, %v", worth, err)
	}
	b.undo()
	if got := b.get("ct.notrack", on); got != "off" {
		t.Errorf("undone, it is %s", got)
	}
}

// Where the kernel has flowtables one is made and taken away; elsewhere setting
// it fails, and nothing is left.
func TestFlowtable(t *testing.T) {
	testenv.Root(t)
	b, on := benchOn(t, ""), netns(t)
	if got := b.get("nft.flowtable", on); got != "off" {
		t.Fatalf("it is %s", got)
	}
	if err := b.set("nft.flowtable", on, "lo"); err != nil {
		t.Logf("this kernel has no flowtables: %v", err)
	} else if got := b.get("nft.flowtable", on); got != "lo" {
		t.Errorf("it was set to lo, and is %s", got)
	}
	b.undo()
	scope, err := on.Scope()
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.m.Settings.Read(setting.Setting{Backend: "nft", Scope: scope, Key: setting.FlowTable})
	if err != nil || v.Present {
		t.Errorf("left is %q, %v", v, err)
	}
	b.refused("nft.flowtable", on, verr.Usage, "on", "", "eth0,eth0", "a/b", "a-name-that-is-too-long")
}
