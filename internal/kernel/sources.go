package kernel

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// Archives are where the machine gets Debian's packages from.
type archives struct {
	main     string // URI of the archive
	security string // of the one with security updates; empty: not known
}

// forSuite returns the archive of a suite; empty: none.
func (a archives) forSuite(suite string) string {
	if strings.HasSuffix(suite, "-security") {
		return a.security
	}
	return a.main
}

// fromMirror gives the archives of a mirror that a user named.
func fromMirror(mirror string) (archives, error) {
	u, err := url.Parse(mirror)
	if err == nil && (u.Scheme == "" || strings.ContainsAny(mirror, " \t\n[]")) {
		err = errors.New("it is no address")
	}
	if err != nil {
		return archives{}, verr.New(verr.Usage, "cannot fetch from mirror "+mirror, err.Error(),
			"give the address of a mirror of Debian, as in a line of sources.list: http://HOST/debian")
	}
	return archives{main: mirror, security: securityBeside(mirror)}, nil
}

// securityBeside is where a mirror has the security updates, if it has the
// folders that mirrors have.
func securityBeside(mirror string) string {
	if above, ok := strings.CutSuffix(strings.TrimSuffix(mirror, "/"), "/debian"); ok {
		return above + "/debian-security"
	}
	return ""
}

// fromMachine finds the archives in the sources of the machine's own package
// manager, below root ("/").
func fromMachine(root string) (archives, error) {
	var a archives
	for _, e := range readSources(filepath.Join(root, "etc/apt")) {
		kind := e.kind()
		switch {
		case kind == "main" && a.main == "":
			a.main = e.uri
		case kind == "security" && a.security == "":
			a.security = e.uri
		}
	}
	if a.main == "" {
		return a, verr.New(verr.Missing, "cannot fetch a kernel",
			"the package manager's sources (/etc/apt/sources.list and sources.list.d) name no archive of Debian",
			"name one with --mirror http://HOST/debian, or give --kernel the file of a bzImage that lies beside its modules")
	}
	if a.security == "" {
		a.security = securityBeside(a.main)
	}
	return a, nil
}

// entry is one suite of a source.
type entry struct {
	uri, suite string
	components []string
	signedBy   string
}

// suite names of Debian; others bring packages for Debian and call their
// suites alike, which is why entries are also judged by their address.
var debianSuite = regexp.MustCompile(`^(bullseye|bookworm|trixie|forky|oldoldstable|oldstable|stable|testing|unstable|sid)(-updates|-backports|-security|/updates)?$`)

// kind says which archive of Debian an entry is of: main, security, or none.
func (e entry) kind() string {
	last := strings.TrimSuffix(path.Base(strings.TrimSuffix(e.uri, "/")), ".list") // mirror+file:/etc/apt/mirrors/debian.list
	ours := last == "debian" || last == "debian-security" || strings.Contains(e.signedBy, "debian-archive")
	scheme, _, _ := strings.Cut(e.uri, ":")
	switch {
	case !ours || scheme == "cdrom" || !debianSuite.MatchString(e.suite) || !slices.Contains(e.components, "main"):
		return ""
	case strings.HasSuffix(e.suite, "-security") || strings.HasSuffix(e.suite, "/updates"):
		return "security"
	}
	return "main"
}

// readSources reads all sources of a machine. What cannot be read is left out:
// the package manager's own programs tell of that.
func readSources(folder string) []entry {
	var all []entry
	files, _ := sanitize.Files(filepath.Join(folder, "sources.list.d"), "*") // errs only on a bad pattern
	for _, file := range append([]string{filepath.Join(folder, "sources.list")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		switch filepath.Ext(file) {
		case ".list":
			all = append(all, readLines(string(text))...)
		case ".sources":
			all = append(all, readStanzas(string(text))...)
		}
	}
	return all
}

// readLines reads the one-line format: "deb [signed-by=FILE] URI SUITE COMPONENT...".
func readLines(text string) []entry {
	var all []entry
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		e := entry{}
		if options, after, found := strings.Cut(rest, "]"); found && strings.HasPrefix(strings.TrimSpace(rest), "[") {
			for _, o := range strings.Fields(strings.Trim(options, " [")) {
				if file, ok := strings.CutPrefix(o, "signed-by="); ok {
					e.signedBy = file
				}
			}
			rest = after
		}
		if words := strings.Fields(rest); len(words) >= 3 {
			e.uri, e.suite, e.components = words[0], words[1], words[2:]
			all = append(all, e)
		}
	}
	return all
}

// readStanzas reads the format of *.sources files.
func readStanzas(text string) []entry {
	var all []entry
	for _, s := range stanzas(text) {
		if !slices.Contains(strings.Fields(s["types"]), "deb") || s["enabled"] == "no" {
			continue
		}
		for _, uri := range strings.Fields(s["uris"]) {
			for _, suite := range strings.Fields(s["suites"]) {
				all = append(all, entry{uri, suite, strings.Fields(s["components"]), s["signed-by"]})
			}
		}
	}
	return all
}

// stanzas reads blocks of "Key: value" lines between empty ones. Keys are in
// lower case; lines that begin with a space go on with the value above.
func stanzas(text string) []map[string]string {
	var all []map[string]string
	current, key := map[string]string{}, ""
	for line := range strings.Lines(text + "\n\n") {
		line = strings.TrimRight(line, " \t\r\n")
		switch name, value, ok := strings.Cut(line, ":"); {
		case line == "":
			if len(current) > 0 {
				all = append(all, current)
			}
			current, key = map[string]string{}, ""
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			current[key] += " " + strings.TrimSpace(line)
		case ok:
			key = strings.ToLower(strings.TrimSpace(name))
			current[key] = strings.TrimSpace(value)
		}
	}
	return all
}

// The keys that Debian signs its archives with, of package debian-archive-keyring.
var keyrings = []string{
	"usr/share/keyrings/debian-archive-keyring.pgp",
	"usr/share/keyrings/debian-archive-keyring.gpg",
}

// keyring gives the file of the keys, below root ("/").
func keyring(root string) (string, error) {
	for _, file := range keyrings {
		file = filepath.Join(root, file)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", verr.New(verr.Missing, "cannot fetch a kernel",
		fmt.Sprintf("the keys that Debian signs its packages with are not here (%s)", "/"+keyrings[1]),
		"install the package debian-archive-keyring")
}
