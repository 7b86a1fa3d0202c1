package tune

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/setting"
)

// Columns of /proc/net/softnet_stat, a line a core, in hexadecimal.
const (
	softnetDrops    = 1 // the backlog was full
	softnetSqueezes = 2 // the budget ran out
)

// softnet is a condition on a column that is not zero, or on a setting that is
// less than the kernel's own.
func softnet(column int, text string, setting string, own int) Condition {
	return Condition{Text: text, Holds: func(m knob.Machine, _ knob.Target) (bool, string, error) {
		sum := uint64(0)
		for line := range strings.Lines(m.Text("proc/net/softnet_stat")) {
			fields := strings.Fields(line)
			if len(fields) <= column {
				continue
			}
			if n, err := strconv.ParseUint(fields[column], 16, 64); err == nil {
				sum += n
			}
		}
		value := strings.TrimSpace(m.Text("proc/sys/net/core", setting))
		now, err := strconv.Atoi(value)
		return sum > 0 || err == nil && now < own, fmt.Sprintf("%d of them, %s %s", sum, setting, value), nil
	}}
}

var (
	backlogDrops   = softnet(softnetDrops, "packets were dropped because the backlog was full (/proc/net/softnet_stat), or it is shorter than the kernel's own 1000", "netdev_max_backlog", 1000)
	budgetSqueezes = softnet(softnetSqueezes, "polls ended with packets left (/proc/net/softnet_stat), or the budget is less than the kernel's own 300", "netdev_budget", 300)
)

// ringDrops holds where a device has counted packets that found no room.
var ringDrops = Condition{Text: "the card dropped packets for lack of room (rx_missed_errors, rx_fifo_errors)", Holds: func(m knob.Machine, t knob.Target) (bool, string, error) {
	scope, err := t.Scope()
	if err != nil {
		return false, "", err
	}
	var seen []string
	holds := false
	for _, counter := range []string{"rx_missed_errors", "rx_fifo_errors"} {
		v, err := m.Settings.Read(setting.Setting{Backend: "net", Scope: scope, Key: "statistics/" + counter})
		if err != nil {
			return false, "", err
		}
		holds = holds || strings.Trim(v.String(), "0\n") != ""
		seen = append(seen, counter+" "+strings.TrimSpace(v.String()))
	}
	return holds, strings.Join(seen, ", "), nil
}}

// segments holds where nothing is known against segmentation by a device's driver.
var segments = Condition{Text: "its driver does not keep it off for a reason: r8169 does, since cards stopped to send, and its maintainers say \"use at own risk\"", Holds: func(m knob.Machine, t knob.Target) (bool, string, error) {
	driver := ""
	find := func(sys string) error {
		driver = host.Reader{Root: m.Root}.CardDriver(sys, t.Device)
		return nil
	}
	if m.Root != "" {
		_ = find("")
	} else if scope, err := t.Scope(); err != nil {
		return false, "", err
	} else if err := scope.Enter(func(string) error { return host.Sysfs(find) }); err != nil {
		return false, "", err
	}
	return driver != "r8169", "driver " + driver, nil
}}

// mirrorOn holds where a file has Kube-OVN copy all traffic.
var mirrorOn = Condition{Text: "the mirror is on", Holds: func(m knob.Machine, t knob.Target) (bool, string, error) {
	value, err := valueOf("kubeovn.mirror", m, t)
	return value == "on", "kubeovn.mirror " + value, err
}}

// encapsulated holds where a pool's packets go into tunnels.
var encapsulated = Condition{Text: "the pool's packets go into a tunnel", Holds: func(m knob.Machine, t knob.Target) (bool, string, error) {
	value, err := valueOf("cal.encap", m, t)
	return strings.HasPrefix(value, "ipip") || strings.HasPrefix(value, "vxlan"), "cal.encap " + value, err
}}

// valueOf is what a knob of the table is now.
func valueOf(name string, m knob.Machine, t knob.Target) (string, error) {
	e, err := table.Find(name)
	if err != nil {
		return "", err
	}
	r, err := e.Get(m, t)
	return r.Value, err
}
