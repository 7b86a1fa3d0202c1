package setting

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// unitConfigBackend is the files with the environment of services. A key is the
// name of a unit and the file's. A service that runs is started anew with it:
// one that was killed in between is made up for by Sweep, which finds by a file
// beside it what was being written. Where somebody else has changed the file
// since, the service is left alone.
func unitConfigBackend(root string) Backend {
	files := fileBackend(root)
	split := func(s Setting) (unit string, file, mark Setting) {
		unit, name, _ := strings.Cut(s.Key, " ")
		mark = Setting{Backend: files.Name, Key: filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".wanted.venturi")}
		return unit, Setting{Backend: files.Name, Key: name}, mark
	}
	return Backend{
		Name:       "unit-config",
		Persistent: true,
		Installed:  true,
		Read: func(s Setting) (Value, error) {
			_, file, _ := split(s)
			return files.Read(file)
		},
		Write: func(s Setting, v Value) error {
			unit, file, mark := split(s)
			return withMarker(files, mark, pendingWrite{New: v}, func() error {
				if err := files.Write(file, v); err != nil {
					return err
				}
				return restartUnit(unit, v)
			})
		},
		Sweep: func(s Setting) error {
			unit, file, mark := split(s)
			if err := files.Sweep(file); err != nil {
				return err
			}
			b, there, err := readMarker(files, mark)
			if err != nil || !there {
				return err
			}
			now, err := files.Read(file)
			if err == nil && now.Equal(b.New) {
				err = restartUnit(unit, now)
			}
			return errors.Join(err, files.Write(mark, Value{}))
		},
	}
}

// restartUnit starts a service anew if it runs with other variables than a file
// gives it.
func restartUnit(unit string, file Value) error {
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
