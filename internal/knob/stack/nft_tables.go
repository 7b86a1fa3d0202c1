package stack

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// ctNotrack keeps the outer packets of tunnels out of connection tracking.
var ctNotrack = knob.Entry{
	Facts: knob.Facts{
		Name:     "ct.notrack",
		Title:    "Whether tunnels' outer packets bypass connection tracking, by Venturi's own nftables table",
		Values:   "on (UDP ports 4789, 6081 and 8472), off, or the ports: 4789,6081",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Packets, knob.Drops, knob.CPU},
		Risk:     "rules of this namespace that look at the state of a tunnel's outer packets no longer match; a rule that drops invalid or untracked ones drops them",
		Needs:    "a namespace that tracks connections and in which tunnels end: each outer source port is a connection of its own. nftables in the kernel",
		Grade:    knob.GradeC,
		Evidence: "the table of connections filled up with a tunnel's random source ports (OpenStack's neutron charm), without a number",
		Undo:     "the table is deleted; nobody else's rules are touched",
	},
	Knob: ownTable{key: setting.NotrackTable, on: []string{"4789", "6081", "8472"}, text: notrackText, check: isPort},
}

// nftFlowtable lets established connections pass by the rules.
var nftFlowtable = knob.Entry{
	Facts: knob.Facts{
		Name:       "nft.flowtable",
		Title:      "Whether established connections that are forwarded bypass the rules, by Venturi's own nftables table",
		Values:     "the devices, such as eth0,cali1; off",
		Scope:      knob.ScopeNetns,
		Helps:      []knob.Benefit{knob.Throughput, knob.Packets, knob.CPU},
		Risk:       "skips all later hooks: marks, limits of connections and packets, and counters no longer see these packets (calico issue 13495)",
		Needs:      "a namespace that forwards and tracks connections; modules nf_flow_table and nft_flow_offload. The devices must stay: one that goes away leaves the table without it",
		Grade:      knob.GradeA,
		Evidence:   "ten runs with their deviation on firewalld's blog; the figures are in a graph only",
		Undo:       "the table is deleted, and its connections take the whole path again",
		ManualOnly: "it lets packets bypass rules that somebody may rely on",
	},
	Knob: ownTable{key: setting.FlowTable, text: setting.Flowtable, check: isDevice},
}

func notrackText(ports []string) string {
	var numbers []int
	for _, p := range ports {
		n, _ := strconv.Atoi(p) // checked before
		numbers = append(numbers, n)
	}
	return setting.Notrack(numbers)
}

func isPort(word string) error { return knob.Number(1, 65535)(word) }

func isDevice(word string) error {
	const longest = 15 // the kernel's IFNAMSIZ without its end
	if word == "" || word == knob.On || len(word) > longest || strings.ContainsAny(word, "/ \t\n:") {
		return fmt.Errorf("%q is not a device name", word)
	}
	return nil
}

// ownTable is a knob that is a table of the packet filter of our own: it is there
// for a list of words, or it is not there.
type ownTable struct {
	key   string
	on    []string                    // what "on" means; nil: it must be said
	text  func(words []string) string // of a table for these words
	check func(word string) error
}

const (
	foreign = "changed by somebody else"
)

func (o ownTable) setting(t knob.Target) (setting.Setting, error) {
	scope, err := setting.NetnsScope(t.Netns)
	if err != nil {
		return setting.Setting{}, knob.BadNetns(t, err)
	}
	return setting.Setting{Backend: "nft", Scope: scope, Key: o.key}, nil
}

// Get is of [knob.Knob].
func (o ownTable) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	s, err := o.setting(t)
	if err != nil {
		return knob.Reading{}, err
	}
	v, err := m.Settings.Read(s)
	if errors.Is(err, errors.ErrUnsupported) {
		return knob.Reading{}, verr.Wrap(verr.Missing, "cannot read nftables", err, "take a kernel with nftables")
	}
	if err != nil || !v.Present {
		return knob.Reading{Value: knob.Off}, err
	}
	words := o.wordsIn(v.String())
	if o.text(words) != v.String() {
		return knob.Reading{Value: foreign, Note: "table inet " + o.key + " holds more than we wrote"}, nil
	}
	return knob.Reading{Value: strings.Join(words, ",")}, nil
}

// wordsIn finds the ports, or the devices, in the text of a table.
func (o ownTable) wordsIn(text string) (words []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 6 && fields[0] == "flowtable":
			words = fields[6:]
		case len(fields) == 4 && fields[0] == "udp" && !slices.Contains(words, fields[2]):
			words = append(words, fields[2])
		}
	}
	return words
}

// Plan is of [knob.Knob].
func (o ownTable) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	now, err := o.Get(m, t)
	if err != nil {
		return nil, err
	}
	s, err := o.setting(t)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("cannot set table %s to %q", o.key, value)
	if now.Value == foreign {
		return nil, verr.New(verr.Failed, what, "somebody else has put something into it", "see it with: nft list table inet "+o.key)
	}
	if value == knob.Off {
		return []setting.Write{{Setting: s}}, nil
	}
	words := strings.Split(value, ",")
	if value == knob.On && o.on != nil {
		words = o.on
	}
	for i, w := range words {
		if words[i] = strings.TrimSpace(w); o.check(words[i]) != nil || slices.Contains(words[:i], words[i]) {
			return nil, verr.New(verr.Usage, what, fmt.Sprintf("%q makes no sense in it, or comes twice", w), knob.SeeValues)
		}
	}
	return []setting.Write{{Setting: s, Value: setting.Text(o.text(words))}}, nil
}

// Range is of [knob.Ranger].
func (o ownTable) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := o.Get(m, t)
	if err != nil || o.on == nil || now.Value != knob.Off {
		return nil, err
	}
	return []string{knob.On}, nil
}
