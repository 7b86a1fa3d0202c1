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
		return nil, pathErrno(err)
	}
	all := map[string]string{}
	for part := range strings.SplitSeq(string(text), "\x00") {
		if name, value, ok := strings.Cut(part, "="); ok && strings.HasPrefix(name, variablesOf(unit)) {
			all[name] = value
		}
	}
	return all, nil
}
