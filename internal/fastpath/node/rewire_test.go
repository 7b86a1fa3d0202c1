package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// A fast path is ended once its node has been wired in another way for a while, and not by a network
// that is restarted.
func TestUntilRewired(t *testing.T) {
	routed := fastpath.Config{Kind: fastpath.Routed, Devices: topology.DeviceNames{Wire: "eth0"}}
	vxlan := fastpath.Config{Kind: fastpath.VXLAN, Port: 8472, Devices: topology.DeviceNames{Wire: "eth0", Tunnels: []string{"flannel.1"}}}
	other := vxlan
	other.Devices.Wire = "eth1"
	nothing, failed := fastpath.Config{}, fastpath.Config{Kind: "failed"}
	for name, c := range map[string]struct {
		seen []fastpath.Config // by minute; the last one stays
		end  time.Duration     // 0: never
	}{
		"the same":           {[]fastpath.Config{routed}, 0},
		"a tunnel came":      {[]fastpath.Config{routed, vxlan}, 3 * time.Minute},
		"one came and went":  {[]fastpath.Config{vxlan, routed, vxlan, routed}, 0},
		"nothing for a time": {[]fastpath.Config{nothing, nothing, nothing, routed}, 0},
		"it changes":         {[]fastpath.Config{vxlan, failed, vxlan, failed, other, vxlan, other, other}, 8 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looks := time.Now(), 0
				wired, stop := UntilRewired(t.Context(), routed, func() (fastpath.Config, error) {
					now := c.seen[min(looks, len(c.seen)-1)]
					if looks++; now.Kind == failed.Kind {
						return now, errors.New("it changes just now")
					}
					return now, nil
				})
				defer stop()
				select {
				case <-wired.Done():
					if took := time.Since(began); took != c.end || !errors.Is(context.Cause(wired), ErrRewired) {
						t.Errorf("it ended after %v (%v), want %v", took, context.Cause(wired), c.end)
					}
				case <-time.After(time.Hour):
					if c.end != 0 {
						t.Error("it has not ended in an hour")
					}
				}
				stop()
				synctest.Wait()
			})
		})
	}
}
