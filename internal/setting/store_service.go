package setting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// Unit is a service as systemd knows it.
type Unit struct {
	Active  bool
	Enabled string // "enabled", "disabled", or what else it can be
	PID     int    // of its first process; 0: it does not run
	Config  string // the file with its environment, if it has one
}

// systemctlLimit is how long systemd may take to start or stop a service.
var systemctlLimit = host.ScaleTimeout(60 * time.Second)

// systemctl runs the program of that name. Error: errors.ErrUnsupported where
// there is none, or no systemd.
func systemctl(args ...string) (string, error) {
	program, err := exec.LookPath("systemctl")
	if err != nil {
		return "", fmt.Errorf("no systemctl on PATH: %w", errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(context.Background(), systemctlLimit)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = host.ScaleTimeout(time.Second)
	err = cmd.Run()
	text := strings.Join(strings.Fields(said.String()), " ")
	if err != nil && (strings.Contains(text, "not been booted with systemd") || strings.Contains(text, "Failed to connect to bus")) {
		return "", fmt.Errorf("no systemd runs here: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return out.String(), nil
}

// ReadUnit asks systemd about a service. Errors: os.ErrNotExist, it has none of
// this name; errors.ErrUnsupported, there is no systemd.
func ReadUnit(name string) (u Unit, err error) {
	text, err := systemctl("show", "--property=LoadState,ActiveState,UnitFileState,MainPID,EnvironmentFiles", "--", name)
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(text) {
		property, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch property {
		case "LoadState":
			if value == "not-found" {
				return u, fmt.Errorf("systemd has no unit %s: %w", name, os.ErrNotExist)
			}
		case "ActiveState":
			u.Active = value == "active" || value == "activating" || value == "reloading"
		case "UnitFileState":
			u.Enabled = value
		case "MainPID":
			u.PID, _ = strconv.Atoi(value)
		case "EnvironmentFiles":
			file, _, _ := strings.Cut(value, " ")
			if strings.HasPrefix(file, "/etc/") {
				u.Config = file
			}
		}
	}
	return u, nil
}

// unitStore is whether a service runs: "active" or "inactive". A key is the name
// of its unit.
func unitStore() Store {
	return Store{
		Name: "unit",
		Read: func(c Cell) (Value, error) {
			u, err := ReadUnit(c.Key)
			if err != nil {
				return Value{}, err
			}
			if u.Active {
				return Text("active"), nil
			}
			return Text("inactive"), nil
		},
		Write: func(c Cell, v Value) error {
			verb, ok := map[string]string{"active": "start", "inactive": "stop"}[v.String()]
			if !ok {
				return fmt.Errorf("no service can be made %q", v)
			}
			_, err := systemctl(verb, "--", c.Key)
			return err
		},
	}
}

// unitFileStore is whether a service starts with the machine: "enabled" or
// "disabled". A key is the name of its unit.
func unitFileStore() Store {
	return Store{
		Name:  "unit-file",
		Lasts: true,
		Read: func(c Cell) (Value, error) {
			u, err := ReadUnit(c.Key)
			return Text(u.Enabled), err
		},
		Write: func(c Cell, v Value) error {
			verb, ok := map[string]string{"enabled": "enable", "disabled": "disable"}[v.String()]
			if !ok {
				return fmt.Errorf("no service can be made %q", v)
			}
			_, err := systemctl(verb, "--", c.Key)
			return err
		},
	}
}

// unitConfigStore is the files with the environment of services. A key is the
// name of a unit and the file's. A service that runs is started anew with it:
// one that was killed in between is made up for by Sweep, which finds by a file
// beside it what was being written. Where somebody else has changed the file
// since, the service is left alone.
func unitConfigStore(root string) Store {
	files := fileStore(root)
	split := func(c Cell) (unit string, file, mark Cell) {
		unit, name, _ := strings.Cut(c.Key, " ")
		mark = Cell{Store: files.Name, Key: filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".wanted.venturi")}
		return unit, Cell{Store: files.Name, Key: name}, mark
	}
	return Store{
		Name:  "unit-config",
		Lasts: true,
		Read: func(c Cell) (Value, error) {
			_, file, _ := split(c)
			return files.Read(file)
		},
		Write: func(c Cell, v Value) error {
			unit, file, mark := split(c)
			return withMark(files, mark, begun{New: v}, func() error {
				if err := files.Write(file, v); err != nil {
					return err
				}
				return startAnew(unit, v)
			})
		},
		Sweep: func(c Cell) error {
			unit, file, mark := split(c)
			if err := files.Sweep(file); err != nil {
				return err
			}
			b, there, err := readMark(files, mark)
			if err != nil || !there {
				return err
			}
			now, err := files.Read(file)
			if err == nil && now.Equal(b.New) {
				err = startAnew(unit, now)
			}
			return errors.Join(err, files.Write(mark, Value{}))
		},
	}
}

// startAnew starts a service anew if it runs with other variables than a file
// gives it.
func startAnew(unit string, file Value) error {
	u, err := ReadUnit(unit)
	if errors.Is(err, os.ErrNotExist) || err == nil && (!u.Active || u.PID == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	runs, err := UnitVariables(unit, u.PID)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it just ended
	}
	if err != nil {
		return err
	}
	if wants := Variables(unit, string(file.Data)); len(runs) == len(wants) {
		same := true
		for name, value := range wants {
			same = same && runs[name] == value
		}
		if same {
			return nil
		}
	}
	_, err = systemctl("try-restart", "--", unit)
	return err
}

// variablesOf is how the variables of a service begin: IRQBALANCE_.
func variablesOf(unit string) string {
	return strings.ToUpper(strings.TrimSuffix(filepath.Base(unit), ".service")) + "_"
}

// Variables reads a service's own variables from the text of its file.
func Variables(unit, text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, variablesOf(unit)) {
			value = strings.TrimSpace(value)
			if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
				value = value[1 : len(value)-1]
			}
			all[name] = value
		}
	}
	return all
}

// UnitVariables reads with which of its own variables a service runs.
func UnitVariables(unit string, pid int) (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil, why(err)
	}
	all := map[string]string{}
	for part := range strings.SplitSeq(string(text), "\x00") {
		if name, value, ok := strings.Cut(part, "="); ok && strings.HasPrefix(name, variablesOf(unit)) {
			all[name] = value
		}
	}
	return all, nil
}
