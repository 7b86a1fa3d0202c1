package nic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// hashFields choose the receive queue of UDP packets: those of most tunnels.
var hashFields = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.rss_udp",
		Title:    "Which fields of a UDP packet choose its receive queue",
		Values:   "letters as in `ethtool -N`: sdfn for addresses and ports, sd for addresses; or each: udp4=sdfn,udp6=sd",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.Packets},
		Risk:     "fragments have no ports, and are reordered; on Azure (netvsc) fragmented UDP is lost",
		Needs:    "a card with several queues, of which a UDP tunnel (4789, 6081, 8472) between two machines keeps one busy",
		Grade:    knob.GradeB,
		Evidence: "2 to 3 of 10 Gbit/s over VXLAN with addresses alone, on ixgbe (Cumulus knowledge base)",
		Undo:     "the fields that were set are written back",
	},
	Knob: udpHash{},
}

type udpHash struct{}

var udpFlows = []string{"udp4", "udp6"}

func (udpHash) read(m knob.Machine, t knob.Target) (scope setting.Scope, now map[string]string, err error) {
	if scope, err = deviceScope(t); err != nil {
		return scope, nil, err
	}
	now = map[string]string{}
	var missing error
	for _, flow := range udpFlows {
		v, err := m.Settings.Read(setting.Setting{Backend: "flowhash", Scope: scope, Key: flow})
		switch {
		case err == nil:
			now[flow] = v.String()
		case errors.Is(err, errors.ErrUnsupported):
			missing = err
		default:
			return scope, nil, err
		}
	}
	if len(now) == 0 {
		return scope, nil, hasNone(t, missing)
	}
	if err := checkHash(m, scope, now); err != nil {
		return scope, nil, hasNone(t, err)
	}
	return scope, now, nil
}

// checkHash tells a card without a receive hash, which says that it hashes no fields and refuses
// to be given any, from one that only hashes none.
func checkHash(m knob.Machine, scope setting.Scope, now map[string]string) error {
	for _, fields := range now {
		if fields != setting.NoHashFields {
			return nil
		}
	}
	if _, err := m.Settings.Read(setting.Setting{Backend: "rss", Scope: scope}); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("the card has no receive hash: no fields, no key and no table (so has a virtio card whose host offers no RSS): %w", errors.ErrUnsupported)
}

// Get is of [knob.Knob].
func (k udpHash) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, now, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	var items, values []string
	for _, flow := range udpFlows {
		if v, has := now[flow]; has {
			items, values = append(items, flow+"="+v), append(values, v)
		}
	}
	if len(slices.Compact(values)) == 1 {
		return knob.Reading{Value: values[0]}, nil
	}
	return knob.Reading{Value: strings.Join(items, ",")}, nil
}

// Plan is of [knob.Knob].
func (k udpHash) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	scope, now, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	want := map[string]string{}
	if strings.Contains(value, "=") {
		if want, err = knob.ParseAssignments(value); err != nil {
			return nil, err
		}
	} else {
		for flow := range now {
			want[flow] = value
		}
	}
	var writes []setting.Write
	for _, flow := range udpFlows {
		fields, asked := want[flow]
		delete(want, flow)
		if !asked {
			continue
		}
		if _, has := now[flow]; !has {
			return nil, hasNone(t, fmt.Errorf("its driver does not hash %s", flow))
		}
		if fields == "" || strings.Trim(fields, "mvtsdfn") != "" && fields != "none" {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set nic.rss_udp to %q", fields), "it is not made of the letters m, v, t, s, d, f and n", "write it like sdfn")
		}
		writes = append(writes, setting.Write{Setting: setting.Setting{Backend: "flowhash", Scope: scope, Key: flow}, Value: setting.Text(fields)})
	}
	for word := range want {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %q", word), "there is no such part of nic.rss_udp", "name udp4 or udp6")
	}
	return writes, nil
}

// Range is of [knob.Ranger].
func (k udpHash) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return knob.OtherThan("sdfn", "sd")(now.Value), nil
}

// hashTable shares packets out among receive queues.
var hashTable = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.rss_table",
		Title:    "How the receive hash spreads packets over queues",
		Values:   "default, or a list of queues to repeat until the table is full, such as 0:1 or 0:0:1; with key=HEX and hash=NAME too: table=0:1,hash=toeplitz",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.Packets},
		Risk:     "a queue that gets too much; fewer channels than the table uses cannot be set meanwhile",
		Needs:    "a card with several queues and a table",
		Grade:    knob.GradeC,
		Evidence: "the kernel's scaling.rst",
		Undo:     "the old table and key are written back; a table that is even over all queues becomes the default again, because the kernel does not say whether somebody set it",
	},
	Knob: rssTable{},
}

type rssTable struct{}

func (rssTable) read(m knob.Machine, t knob.Target) (setting.Setting, map[string]string, error) {
	scope, err := deviceScope(t)
	if err != nil {
		return setting.Setting{}, nil, err
	}
	s := setting.Setting{Backend: "rss", Scope: scope}
	v, err := m.Settings.Read(s)
	if errors.Is(err, errors.ErrUnsupported) {
		err = hasNone(t, err)
	}
	if err != nil {
		return s, nil, err
	}
	now, err := setting.Fields(v.String())
	return s, now, err
}

// Get is of [knob.Knob].
func (k rssTable) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, now, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: now["table"]}
	if r.Value == "" {
		r.Value = "none"
	}
	var others []string
	for _, name := range []string{"hash", "key", "change"} {
		if now[name] != "" {
			others = append(others, name+"="+now[name])
		}
	}
	r.Note = strings.Join(others, ",")
	return r, nil
}

// Plan is of [knob.Knob].
func (k rssTable) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	s, now, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(value, "=") {
		value = "table=" + value
	}
	want, err := knob.ParseAssignments(value)
	if err != nil {
		return nil, err
	}
	for name, word := range want {
		if _, has := now[name]; !has {
			return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set %q of %s", name, t.Device), "its driver has no such part of the hash", "read what it has with: venturi knob get nic.rss_table --dev "+sanitize.Shell(t.Device))
		}
		if name == "table" {
			if word, err = setting.HashTable(s.Scope, word); err != nil {
				return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set the table of %s to %q", t.Device, word), err.Error(), "write it like 0:1, with queues that there are, or "+setting.DefaultTable)
			}
		}
		now[name] = word
	}
	var items []string
	for _, name := range []string{"change", "hash", "key", "table"} {
		if v, has := now[name]; has {
			items = append(items, name+"="+v)
		}
	}
	return []setting.Write{{Setting: s, Value: setting.Text(strings.Join(items, ","))}}, nil
}

// Range is of [knob.Ranger].
func (k rssTable) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	trials := []string{setting.DefaultTable}
	scope, err := deviceScope(t)
	if err != nil {
		return nil, err
	}
	// The first half of the queues: the others are left to what is steered there.
	var half []string
	for i := range setting.ReceiveRings(scope) / 2 {
		half = append(half, strconv.Itoa(i))
	}
	if len(half) > 0 {
		trials = append(trials, strings.Join(half, ":"))
	}
	return knob.OtherThan(trials...)(now.Value), nil
}
