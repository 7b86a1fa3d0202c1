package cpu

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// irqBalance is the daemon that moves interrupts between cores.
var irqBalance = knob.Entry{
	Facts: knob.Facts{
		Name:     "irq.balance",
		Title:    "Which cores irqbalance keeps interrupts away from, and whether it runs",
		Values:   "ban=2-3: it runs, and moves none to these cores; on: it runs, and may move all; off: it is stopped and disabled",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency, knob.Drops},
		Risk:     "off: interrupts pile up on one core, unless irq.affinity spreads them; a ban restarts it, and it moves interrupts then",
		Needs:    "irqbalance 1.8 as a service of systemd",
		Grade:    knob.GradeD,
		Evidence: "off: Kube-OVN, Cilium, ESnet; on: Amazon. Off with pinning by hand cost 30 % with 40 processes of Redis on 4 nodes (scx issue 3245)",
		Undo:     "its file gets its old bytes back, and its service runs and starts at boot as before; where it had moved interrupts is not restored",
	},
	Knob: balance{},
}

const (
	balanceUnit = "irqbalance.service"
	bannedList  = "IRQBALANCE_BANNED_CPULIST"
	bannedMask  = "IRQBALANCE_BANNED_CPUS" // of versions before 1.8
)

type balance struct{}

func (balance) read(m knob.Machine) (u setting.Unit, config setting.Setting, text setting.Value, err error) {
	u, err = setting.ReadUnit(balanceUnit)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return u, config, text, verr.Wrap(verr.Missing, "cannot read irq.balance", err, "it takes irqbalance as a service of systemd; without it, nothing moves interrupts but irq.affinity")
	}
	if err != nil || u.Config == "" {
		return u, config, text, err
	}
	config = setting.Setting{Backend: "unit-config", Key: balanceUnit + " " + u.Config}
	text, err = m.Settings.Read(config)
	return u, config, text, err
}

// banOf is the value that variables make.
func banOf(variables map[string]string) string {
	if list := variables[bannedList]; list != "" {
		return "ban=" + list
	}
	if mask := variables[bannedMask]; strings.Trim(mask, "0,") != "" {
		if list, err := knob.ParseMask(mask); err == nil {
			return "ban=" + list
		}
	}
	return "on"
}

// Get is of [knob.Knob]. In effect is what the daemon was started with.
func (k balance) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	u, _, text, err := k.read(m)
	if err != nil {
		return knob.Reading{}, err
	}
	if !u.Active {
		return knob.Reading{Value: "off", Note: "it is " + u.Enabled}, nil
	}
	r := knob.Reading{Value: banOf(setting.Variables(balanceUnit, string(text.Data)))}
	if runs, err := setting.UnitVariables(balanceUnit, u.PID); err == nil {
		r.Effective = banOf(runs)
	}
	return r, nil
}

// Plan is of [knob.Knob].
func (k balance) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	u, config, text, err := k.read(m)
	if err != nil {
		return nil, err
	}
	runs := setting.Setting{Backend: "unit", Key: balanceUnit}
	starts := setting.Setting{Backend: "unit-file", Key: balanceUnit}
	var writes []setting.Write
	startsToo := func(state string) {
		if u.Enabled == "enabled" || u.Enabled == "disabled" { // others are nobody's choice
			writes = append(writes, setting.Write{Setting: starts, Value: setting.Text(state)})
		}
	}
	list, bans := strings.CutPrefix(value, "ban=")
	switch {
	case value == "off":
		startsToo("disabled")
		return append(writes, setting.Write{Setting: runs, Value: setting.Text("inactive")}), nil
	case value == "on":
		list = ""
	case !bans:
		return nil, knob.BadValue("irq.balance", value, errors.New("want ban=CORES, on or off"))
	default:
		if list, err = k.parseBanned(m, list); err != nil {
			return nil, knob.BadValue("irq.balance", value, err)
		}
	}
	if now := banOf(setting.Variables(balanceUnit, string(text.Data))); now != value && (bans || now != "on") {
		if config.Key == "" {
			return nil, verr.New(verr.Missing, "cannot set irq.balance to "+value, "its unit reads no file below /etc", "ban cores by the arguments in its unit")
		}
		writes = append(writes, setting.Write{Setting: config, Value: setting.Text(banned(string(text.Data), list))})
	}
	startsToo("enabled")
	return append(writes, setting.Write{Setting: runs, Value: setting.Text("active")}), nil
}

// parseBanned checks a list of cores, of which some must be left over.
func (balance) parseBanned(m knob.Machine, list string) (string, error) {
	cores, err := host.ParseNumbers(list)
	if err != nil {
		return "", err
	}
	on := knob.OnlineCores(m)
	if len(cores) == 0 || len(on) > 0 && (len(cores) >= len(on) || cores[len(cores)-1] > on[len(on)-1]) {
		return "", fmt.Errorf("want some of the cores %s, and not all", host.FormatNumbers(on))
	}
	return host.FormatNumbers(cores), nil
}

// banned is the text of the daemon's file with a list of cores; none takes it
// out. All other lines stay as they are.
func banned(text, list string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != bannedList && name != bannedMask {
			out.WriteString(line)
		}
	}
	if list == "" {
		return out.String()
	}
	if out.Len() > 0 && !strings.HasSuffix(out.String(), "\n") {
		out.WriteString("\n")
	}
	out.WriteString(bannedList + "=" + list + "\n")
	return out.String()
}
