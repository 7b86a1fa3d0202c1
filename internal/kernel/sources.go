package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// archives are the Debian archives that the host's packages come from.
type archives struct {
	main     string // URI of the archive
	security string // URI of the archive with security updates; empty: unknown
}

// forSuite returns the archive of a suite; empty means none.
func (a archives) forSuite(suite string) string {
	if strings.HasSuffix(suite, "-security") {
		return a.security
	}
	return a.main
}

// fromMirror returns the archives of a mirror that a user named.
func fromMirror(mirror string) (archives, error) {
	u, err := url.Parse(mirror)
	if err == nil && (u.Scheme == "" || strings.ContainsAny(mirror, " \t\n[]")) {
		err = errors.New("it is not an address")
	}
	if err != nil {
		return archives{}, verr.New(verr.Usage, "cannot fetch from mirror "+mirror, err.Error(),
			"give the address of a mirror of Debian, as in a line of sources.list: http://HOST/debian")
	}
	return archives{main: mirror, security: securityBeside(mirror)}, nil
}

// securityBeside returns the URI of a mirror's security updates, if the mirror uses the usual
// layout.
func securityBeside(mirror string) string {
	if above, ok := strings.CutSuffix(strings.TrimSuffix(mirror, "/"), "/debian"); ok {
		return above + "/debian-security"
	}
	return ""
}

// fromMachine asks the host's package manager for its archives. Tests pass options that point it to
// another folder.
func fromMachine(ctx context.Context, program string, options ...string) (archives, error) {
	const what = "cannot fetch a kernel"
	var a archives
	// Release information includes the origin of an archive, but omits archives whose lists were
	// never fetched. Most archives are known by URI, so try that first.
	for _, origins := range []bool{false, true} {
		args := append([]string{"-q", "-q", "-o", fmt.Sprintf("APT::Get::IndexTargets::ReleaseInfo=%v", origins)}, options...)
		shown, err := run(ctx, "/", program, append(args, "indextargets", "Created-By: Packages")...)
		if ctx.Err() != nil {
			return a, err
		}
		if err != nil {
			return a, verr.Wrap(verr.Failed, what, err, "correct the package manager's sources (/etc/apt/sources.list and sources.list.d), or name an archive with --mirror http://HOST/debian")
		}
		for _, t := range stanzas(shown) {
			switch uri := strings.TrimSuffix(t["repo-uri"], "/"); archiveOf(t) {
			case "main":
				a.main = cmp.Or(a.main, uri)
			case "security":
				a.security = cmp.Or(a.security, uri)
			}
		}
		if a.main != "" {
			break
		}
	}
	if a.main == "" {
		return a, verr.New(verr.Missing, what,
			"the package manager's sources (/etc/apt/sources.list and sources.list.d) name no archive of Debian",
			"name one with --mirror http://HOST/debian, or give --kernel the file of a bzImage that lies beside its modules")
	}
	if a.security == "" {
		a.security = securityBeside(a.main)
	}
	return a, nil
}

// Suites of Debian. Other distributions use the same names, so a source must also match by URI or
// origin.
var debianSuite = regexp.MustCompile(`^(bullseye|bookworm|trixie|forky|oldoldstable|oldstable|stable|testing|unstable|sid)(-updates|-backports|-security|/updates)?$`)

// archiveOf returns which Debian archive a target of "apt-get indextargets" belongs to: main,
// security, or none.
func archiveOf(target map[string]string) string {
	uri, suite := target["repo-uri"], target["release"]
	last := strings.TrimSuffix(path.Base(strings.TrimSuffix(uri, "/")), ".list") // mirror+file:/etc/apt/mirrors/debian.list
	debian := last == "debian" || last == "debian-security" || target["origin"] == "Debian"
	switch {
	case !debian || strings.HasPrefix(uri, "cdrom:") || !debianSuite.MatchString(suite) || target["component"] != "main":
		return ""
	case strings.HasSuffix(suite, "-security") || strings.HasSuffix(suite, "/updates"):
		return "security"
	}
	return "main"
}

// stanzas parses blocks of "Key: value" lines, separated by empty lines. Keys are converted to
// lower case. A line that begins with a space continues the value above.
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

// The keys that sign Debian's archives, in package debian-archive-keyring.
var keyrings = []string{
	"usr/share/keyrings/debian-archive-keyring.pgp",
	"usr/share/keyrings/debian-archive-keyring.gpg",
}

// keyring returns the file of the keys, below root ("/").
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
