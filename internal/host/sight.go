package host

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"strings"
)

// Sight is what of the machine a process sees: in a container, less than there is.
type Sight struct {
	Whole bool   // all processes, and the files of the first of them
	ID    string // tells it from that of another container, also after a restart
}

// Sight tells what of the machine this process sees.
func (r Reader) Sight() Sight {
	first := r.seesFirstFiles()
	name := r.line("etc/machine-id") // of the installation: what two see who have the same one, is the same
	if len(name) != 32 {             // images have none, or say that it is yet to be made
		name = fmt.Sprint(r.line("proc/sys/kernel/hostname"), first)
	}
	sum := sha256.Sum256([]byte("venturi sight " + name)) // the number itself is nobody else's business
	return Sight{Whole: first && r.SeesAllProcesses(), ID: fmt.Sprintf("%x", sum[:8])}
}

// seesFirstFiles tells whether the first process in sight has the same files. Its mounts are compared: to
// look into its root takes a privilege that even root may lack. Users who are not shown them have
// journals of their own, in which nobody else's changes are.
func (r Reader) seesFirstFiles() bool {
	first, err1 := os.ReadFile(r.path("proc/1/mountinfo"))
	own, err2 := os.ReadFile(r.path("proc/self/mountinfo"))
	if err1 != nil || err2 != nil {
		return os.Geteuid() != 0
	}
	for _, folder := range []string{"/", "/etc"} {
		file := fileOf(string(own), folder)
		if file == "" || file != fileOf(string(first), folder) {
			return false
		}
	}
	return true
}

// fileOf says which folder of which file system a folder below the root is, by a table of mounts.
func fileOf(table, folder string) (file string) {
	mounted := false
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		switch {
		case len(f) < 5:
		case f[4] == folder:
			file, mounted = f[2]+" "+f[3], true
		case f[4] == "/" && !mounted:
			file = f[2] + " " + path.Join(f[3], folder)
		}
	}
	return file
}

// Name is how a journal remembers what was in sight; empty: all of the machine.
func (s Sight) Name() string {
	if s.Whole {
		return ""
	}
	return s.ID
}

// Covers tells whether all that was in sight, by its name, is.
func (s Sight) Covers(name string) bool {
	return name == "" && s.Whole || name != "" && name == s.ID
}
