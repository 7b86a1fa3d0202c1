package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// target is what a command line names for knobs to be read or turned on.
type target struct{ dev, netns, manifest, db string }

func (t *target) flags(f *pflag.FlagSet) {
	f.Var(onceFlag{&t.dev}, "dev", "network device, for knobs of devices")
	f.VarP(onceFlag{&t.netns}, "netns", "n", netnsHelp)
	f.Var(onceFlag{&t.manifest}, "manifest", "file with Kubernetes objects, for knobs of manifests")
	f.Var(onceFlag{&t.db}, "db", "socket of the database of Open vSwitch or OVN, for their knobs (default: the path of\ntheir package)")
}

const netnsHelp = "network namespace: its name in " + host.NamespaceFolder + ", its file, or the id of a\nprocess in it (default: the one that this command runs in)"

// read checks what was named. Error: it is not there (exit code 2), or may not be
// looked into (3).
func (t target) read() (knob.Target, error) {
	to := knob.Target{Device: t.dev, Switch: t.db}
	var err error
	if to.Netns, err = netnsFile(t.netns); err != nil {
		return to, err
	}
	if t.manifest != "" {
		if to.File, err = filepath.Abs(t.manifest); err != nil {
			return to, err
		}
	}
	return to, checkTarget(to)
}

// netnsFile gives the file of a network namespace that is named as ip does: by
// its name, its file, or a process in it; or as the path attach does. Empty is
// the process's own, and so is what stands for it.
func netnsFile(text string) (string, error) {
	if text == "" || text == host.OwnNetwork {
		return "", nil
	}
	file := host.NamespacePath(text)
	_, number := strconv.Atoi(text)
	switch {
	case strings.HasPrefix(text, "ns:"), strings.HasPrefix(text, "pid:"), strings.HasPrefix(text, "container:"):
		var err error
		if file, err = host.NamespaceFile(text); err != nil {
			return "", verr.Wrap(verr.Usage, "cannot find network namespace "+text, err, "list them with: ip netns ls")
		}
	case strings.Contains(text, "/"):
		var err error
		if file, err = filepath.Abs(text); err != nil {
			return "", err
		}
	case number == nil && errors.Is(statFile(file), fs.ErrNotExist):
		file = fmt.Sprintf("/proc/%s/ns/net", text)
	}
	_, err := host.ID(file)
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "", permissionError("cannot look into network namespace "+text, err)
	case errors.Is(err, fs.ErrNotExist):
		return "", verr.New(verr.Usage, "cannot find network namespace "+text, "there is no "+file, "list them with: ip netns ls")
	case err != nil:
		return "", verr.Wrap(verr.Usage, "cannot find network namespace "+text, err, "name it as ip does, by its file, or by a process in it")
	}
	return file, nil
}

func statFile(file string) error {
	_, err := os.Stat(file)
	return err
}

// inScope reports whether a knob can be read on the named target: all knobs are
// listed, and most want something else.
func inScope(e knob.Entry, t knob.Target) bool {
	elsewhere := t.File != "" || t.Switch != ""
	switch e.Scope {
	case knob.ScopeMachine:
		return t.Netns == "" && !elsewhere
	case knob.ScopeNetns:
		return !elsewhere
	case knob.ScopeDevice:
		return t.Device != ""
	case knob.ScopeManifest:
		return t.File != ""
	case knob.ScopeSwitch:
		return t.Switch != ""
	}
	return false
}

// restrictTarget returns the part of the named target that a knob is set on. Error: what it needs is not
// named, or what is named does not bound it.
func restrictTarget(e knob.Entry, t knob.Target) (knob.Target, error) {
	what := "cannot use knob " + e.Name
	switch e.Scope {
	case knob.ScopeMachine:
		if t.Netns != "" {
			return t, verr.New(verr.Usage, what, "it applies to the whole machine, not to a network namespace", "leave --netns out to set it on the whole machine")
		}
		return knob.Target{}, nil
	case knob.ScopeNetns:
		return knob.Target{Netns: t.Netns}, nil
	case knob.ScopeDevice:
		if t.Device == "" {
			return t, verr.New(verr.Usage, what, "it applies to a network device, and none is given", "name one with --dev")
		}
		return knob.Target{Netns: t.Netns, Device: t.Device}, nil
	case knob.ScopeManifest:
		if t.File == "" {
			return t, verr.New(verr.Usage, what, "it is in a manifest, and none is given", "name a file with --manifest")
		}
		return knob.Target{File: t.File}, nil
	}
	return knob.Target{Switch: t.Switch}, nil
}

// refuseUnusedTargets refuses a named target that no knob uses: the user meant something by it.
func refuseUnusedTargets(t knob.Target, targets []knob.Target) error {
	var all knob.Target
	for _, used := range targets {
		all.Netns, all.Device, all.File, all.Switch = all.Netns+used.Netns, all.Device+used.Device, all.File+used.File, all.Switch+used.Switch
	}
	for _, f := range []struct{ flag, named, used string }{
		{"--netns", t.Netns, all.Netns}, {"--dev", t.Device, all.Device}, {"--manifest", t.File, all.File}, {"--db", t.Switch, all.Switch},
	} {
		if f.named != "" && f.used == "" {
			return verr.New(verr.Usage, "cannot use "+f.flag+" here", "none of the knobs applies to it", "leave it out, or see the scopes of knobs with: venturi knob ls")
		}
	}
	return nil
}

// unreadableKnobs returns the error of a plan for which some values could not be read:
// steps were left out that root would see. Nil: all could be.
func unreadableKnobs(profile tune.Profile, targets tune.Targets, skipped []tune.Skipped) error {
	var names []string
	for _, s := range skipped {
		e, err := table.Find(s.Step.Knob)
		whole := s.Step.On == tune.Host && targets.Host || s.Step.On == tune.Machines && slices.Contains(targets.Machines, "")
		proof := s.Step.Value == "" && s.Step.Ladder == nil // whatever it reads, a plan has no value for it
		if err != nil || e.ManualOnly != "" || s.Step.State == tune.NeverAutomatic || proof || s.Target == (knob.Target{}) && !whole {
			continue
		}
		if _, err := e.Get(thisMachine(), s.Target); errors.Is(err, fs.ErrPermission) && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 || os.Geteuid() == 0 {
		return nil
	}
	return verr.New(verr.Permission, "cannot plan all of profile "+profile.Name, "only root can read "+strings.Join(names, ", "), "run it as root, or through sudo")
}

// permissionError explains an error of permission; any other error is returned as it is.
func permissionError(what string, err error) error {
	if !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	why := err.Error()
	if known := new(verr.Error); errors.As(err, &known) {
		why = known.Reason
	}
	return &verr.Error{Code: verr.Permission, Summary: what, Reason: why, Hint: "run it as root, or through sudo", Err: err}
}
