package setting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// TunedState is what tuned keeps on disk of the profile that it has: the bytes
// of its two files. Nil: the file is not there.
type TunedState struct {
	Profile *string `json:"active_profile"`
	Mode    *string `json:"profile_mode"`
}

// Text is the state as a value of a setting; that of neither file is absent.
func (s TunedState) Text() (Value, error) {
	if s.Profile == nil && s.Mode == nil {
		return Value{}, nil
	}
	text, err := json.Marshal(s)
	return Text(string(text)), err
}

// TunedStateOf reads it back.
func TunedStateOf(v Value) (s TunedState, err error) {
	if !v.Present {
		return s, nil
	}
	if err := json.Unmarshal(v.Data, &s); err != nil {
		return s, fmt.Errorf("read state of tuned: %w", err)
	}
	return s, nil
}

// Name is the profile, or profiles, that it says; empty: none.
func (s TunedState) Name() string {
	if s.Profile == nil {
		return ""
	}
	return strings.Join(strings.Fields(*s.Profile), " ")
}

// tunedLimit is how long tuned gets to change its profile: its own limit is a
// minute.
var tunedLimit = host.ScaleTimeout(90 * time.Second)

// tunedBackend is the profile of tuned. It is changed by its own program, which
// tells the daemon; then its files are made what they shall be to the byte, which
// is also how the mode ("auto") comes back that the program cannot ask for. The
// daemon reads them when it starts. As that is several steps, what is wanted is
// in a file beside them until they are done: whoever finds it does them again.
func tunedBackend(root string) Backend {
	files := fileBackend(root)
	file := func(name string) Setting { return Setting{Backend: files.Name, Key: "/etc/tuned/" + name} }
	profile, mode, wanted := file("active_profile"), file("profile_mode"), file(".wanted.venturi")
	read := func(Setting) (Value, error) {
		var s TunedState
		for _, f := range []struct {
			s    Setting
			into **string
		}{{profile, &s.Profile}, {mode, &s.Mode}} {
			v, err := files.Read(f.s)
			if err != nil {
				return Value{}, err
			}
			if v.Present {
				text := v.String()
				*f.into = &text
			}
		}
		return s.Text()
	}
	write := func(s Setting, v Value) error {
		want, err := TunedStateOf(v)
		if err != nil {
			return err
		}
		before, err := read(s)
		if err != nil {
			return err
		}
		return withMarker(files, wanted, pendingWrite{Old: before, New: v}, func() error {
			if err := runTunedAdm(want.Name()); err != nil {
				return err
			}
			if err := finishWrite(files, profile, want.Profile); err != nil {
				return err
			}
			return finishWrite(files, mode, want.Mode)
		})
	}
	return Backend{
		Name: "tuned", Persistent: true, Installed: true, Read: read, Write: write,
		Sweep: func(s Setting) error {
			if err := errors.Join(files.Sweep(profile), files.Sweep(mode)); err != nil {
				return err
			}
			b, there, err := readMarker(files, wanted)
			if err != nil || !there {
				return err
			}
			now, err := read(s)
			if err != nil {
				return err
			}
			if halfway, err := isBetweenProfiles(b, now); err != nil || !halfway {
				return errors.Join(err, files.Write(wanted, Value{}))
			}
			return write(s, b.New)
		},
	}
}

// finishWrite makes a file what it shall be, where it is not; nil: it shall not be there.
func finishWrite(files Backend, file Setting, text *string) error {
	value := Value{}
	if text != nil {
		value = Text(*text)
	}
	now, err := files.Read(file)
	if err != nil || now.Equal(value) {
		return err
	}
	return files.Write(file, value)
}

// isBetweenProfiles tells whether a state is one that a write passes through: its
// profile is the old or the new one, and so is its mode, or the one that the
// program itself leaves.
func isBetweenProfiles(b pendingWrite, now Value) (bool, error) {
	old, err1 := TunedStateOf(b.Old)
	want, err2 := TunedStateOf(b.New)
	is, err3 := TunedStateOf(now)
	if err := errors.Join(err1, err2, err3); err != nil {
		return false, err
	}
	mode := func(s TunedState) string {
		if s.Mode == nil {
			return ""
		}
		return strings.TrimSpace(*s.Mode)
	}
	names, modes := []string{old.Name(), want.Name()}, []string{mode(old), mode(want), "manual", ""}
	return slices.Contains(names, is.Name()) && slices.Contains(modes, mode(is)), nil
}

// runTunedAdm makes tuned have a profile; an empty name is none.
func runTunedAdm(name string) error {
	args := append([]string{"profile"}, strings.Fields(name)...)
	if name == "" {
		args = []string{"off"}
	}
	program, err := findTunedAdm()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tunedLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tuned-adm %s: %w: %s", strings.Join(args, " "), err, strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}

// findTunedAdm finds tuned's program. What is where we happen to be is not run.
func findTunedAdm() (string, error) {
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		file := filepath.Join(folder, "tuned-adm")
		if info, err := os.Stat(file); filepath.IsAbs(folder) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("find tuned-adm: %w", exec.ErrNotFound)
}
