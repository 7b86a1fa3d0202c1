package nic

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// nicMTU is the largest packet that a device sends whole.
var nicMTU = knob.Entry{
	Facts: knob.Facts{
		Name:       "nic.mtu",
		Title:      "The largest packet that a device sends (MTU)",
		Values:     "bytes, such as 9000",
		Scope:      knob.ScopeDevice,
		Helps:      []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:       "packets that a device on the path does not accept are silently lost; pods keep the MTU that they were created with; some drivers take the link down",
		Needs:      "each device of the path, including switches, accepts packets of this size: begin with the lowest, and probe the path with packets that may not be fragmented",
		Grade:      knob.GradeB,
		Evidence:   "10 to 30 % on a page of recipes, without a method; MTU mismatches are a common problem (Calico issues 8868 and 5575)",
		Undo:       "the old MTU is written back, also to upper devices whose MTU followed",
		ManualOnly: "only its owner knows what the network between the machines carries",
	},
	Knob: mtu{deviceNumbers{name: "nic.mtu", parts: []deviceNumber{{"", "link", "mtu", 1, 1 << 31}}}},
}

// leastIPv6 is the least MTU with which the kernel lets a device have IPv6.
const leastIPv6 = 1280

type mtu struct{ deviceNumbers }

// Plan is of [knob.Knob]. It refuses what no undo could take back.
func (k mtu) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	writes, err := k.deviceNumbers.Plan(m, t, value)
	if err != nil {
		return nil, err
	}
	scope := writes[0].Setting.Scope
	wanted, err := strconv.Atoi(writes[0].Value.String())
	if err != nil {
		return nil, knob.BadValue(k.name, value, err)
	}
	if err := k.takes(m, scope, wanted); err != nil {
		return nil, knob.BadValue(k.name, value, err)
	}
	if scope.Device.Kind == "bridge" {
		return nil, verr.New(verr.Usage, "cannot set the MTU of bridge "+t.Device, "a bridge whose MTU was once set no longer follows its ports, and nothing takes that back", "set that of its ports")
	}
	ipv6, err := m.Settings.Read(setting.Sysctl(scope, "net/ipv6/conf/"+scope.Device.Name+"/mtu"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if ipv6.Present && wanted < leastIPv6 {
		return nil, knob.BadValue(k.name, value, fmt.Errorf("the device has IPv6, which would go with all its addresses and routes below %d", leastIPv6))
	}
	routes, err := setting.RoutesWithMTU(scope)
	if err != nil {
		return nil, err
	}
	if len(routes) > 0 {
		return nil, knob.BadValue(k.name, value, fmt.Errorf("IPv6 routes over the device have an MTU of their own that would follow, and could not be brought back: %s", strings.Join(routes, ", ")))
	}
	return writes, nil
}

// takes checks the limits that the driver tells; 0 is none.
func (mtu) takes(m knob.Machine, scope setting.Scope, wanted int) error {
	limit := func(key string) int {
		v, err := m.Settings.Read(setting.Setting{Backend: "link", Scope: scope, Key: key})
		if err != nil {
			return 0
		}
		n, _ := strconv.Atoi(v.String())
		return n
	}
	if least := limit("min_mtu"); wanted < least {
		return fmt.Errorf("the device takes no less than %d", least)
	}
	if most := limit("max_mtu"); most > 0 && wanted > most {
		return fmt.Errorf("the device takes no more than %d", most)
	}
	return nil
}
