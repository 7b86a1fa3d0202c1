package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// meta is Debian's package that depends on the newest generic kernel.
const meta = "linux-image-amd64"

// apt is the host's package manager, with lists, caches and state in a folder of its own: it
// neither reads nor changes the set of installed packages.
type apt struct{ folder string }

// setUp writes the configuration: suites, and folders for its state. The host's configuration is
// read first, so that its proxies apply; its hooks do not.
func (a apt) setUp(where archives, keys string, suites []string) error {
	var sources, config strings.Builder
	for _, suite := range suites {
		if uri := where.forSuite(suite); uri != "" {
			fmt.Fprintf(&sources, "deb [arch=amd64 target=Packages signed-by=%s] %s %s main\n", keys, uri, suite)
		}
	}
	for _, option := range [][2]string{
		{"Dir::Etc::sourcelist", a.file("sources.list")}, {"Dir::Etc::sourceparts", "-"},
		{"Dir::Etc::preferences", "-"}, {"Dir::Etc::preferencesparts", "-"},
		{"Dir::State", a.file("state")}, {"Dir::State::lists", a.file("lists")},
		{"Dir::State::status", a.file("status")}, {"Dir::Cache", a.file("cache")}, {"Dir::Log", a.file("log")},
		{"APT::Architecture", "amd64"}, {"APT::Sandbox::User", ""}, {"Acquire::Languages", "none"},
		{"Acquire::Retries", "2"}, {"Acquire::http::Timeout", "30"}, {"Acquire::https::Timeout", "30"},
		// Whatever the host's configuration allows: nothing without a valid signature.
		{"APT::Get::AllowUnauthenticated", "false"}, {"Acquire::AllowInsecureRepositories", "false"},
		{"Acquire::AllowWeakRepositories", "false"}, {"Acquire::AllowDowngradeToInsecureRepositories", "false"},
	} {
		fmt.Fprintf(&config, "%s %q;\n", option[0], option[1])
	}
	config.WriteString("#clear APT::Architectures;\n#clear APT::Update;\n#clear DPkg;\n")
	config.WriteString("APT::Update::Error-Mode \"any\";\n") // otherwise an unreachable mirror is no error
	for _, d := range []string{"state", "lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(a.file(d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"sources.list": sources.String(), "config": config.String(), "status": ""} {
		if err := os.WriteFile(a.file(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (a apt) file(name string) string { return filepath.Join(a.folder, name) }

// run runs one of the package manager's programs in its folder, and returns its output.
func (a apt) run(ctx context.Context, program string, args ...string) (string, error) {
	return run(ctx, a.folder, program, append([]string{"-q", "-q", "-c", a.file("config")}, args...)...)
}

// stopGrace is how long an interrupted program has to exit.
const stopGrace = 5 * time.Second

// run runs a program in a folder and returns its output. The error contains the program's own
// complaint.
func run(ctx context.Context, folder, program string, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &said
	cmd.Env = append(withoutConfig(os.Environ()), "LC_ALL=C")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if why := complaints(said.String()); err != nil && why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return out.String(), nil
}

// withoutConfig returns the environment without the variables that name a configuration for apt: a
// user's configuration could undo the separation from the host's state.
func withoutConfig(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "APT_CONFIG=") })
}

// complaints makes a sentence of a program's standard error: lines that apt marks as errors, if
// there are any, and the first of many.
func complaints(text string) string {
	var errs, all []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "E: "); ok {
			errs = append(errs, rest)
		}
		if line != "" {
			all = append(all, line)
		}
	}
	if len(errs) == 0 {
		errs = all
	}
	return strings.Join(errs[:min(len(errs), 2)], "; ")
}

// deb is a package that can be fetched.
type deb struct {
	name, version string
	size          int64 // bytes
}

func (d deb) String() string { return d.name + " " + d.version }

// release returns the kernel release in the package's name.
func (d deb) release() string { return strings.TrimPrefix(d.name, "linux-image-") }

// newest returns the newest kernel package of a series in the lists.
func (a apt) newest(ctx context.Context, programs tools, series string) (deb, error) {
	shown, err := a.run(ctx, programs.cache, "show", meta)
	if err != nil {
		return deb{}, err
	}
	name, version, err := pick(shown, series)
	if err != nil {
		return deb{}, err
	}
	shown, err = a.run(ctx, programs.cache, "show", name+"="+version)
	if err != nil {
		return deb{}, err
	}
	for _, s := range stanzas(shown) {
		size, err := strconv.ParseInt(s["size"], 10, 64)
		return deb{name, version, size}, err
	}
	return deb{}, fmt.Errorf("the lists have no package %s %s", name, version)
}

// pick finds the package with the newest kernel of a series, among the versions of the meta
// package.
func pick(shown, series string) (name, version string, err error) {
	for _, s := range stanzas(shown) {
		// "linux-image-6.1.0-56-amd64 (= 6.1.192-2)"
		depends, _, _ := strings.Cut(s["depends"], ",")
		n, v, ok := strings.Cut(strings.TrimSpace(depends), " (= ")
		v = strings.TrimSuffix(v, ")")
		if ok && seriesOf(v) == series && compareReleases(v, version) > 0 {
			name, version = n, v
		}
	}
	if name == "" {
		return "", "", fmt.Errorf("the archive has no package %s of Linux %s", meta, series)
	}
	return name, version, nil
}

// download fetches a package, with its signature checked, and returns its file. tell receives the
// number of bytes so far, a few times a second.
func (a apt) download(ctx context.Context, programs tools, d deb, tell func(have int64)) (string, error) {
	done := make(chan error, 1)
	go func() {
		_, err := a.run(ctx, programs.get, "download", d.name+"="+d.version)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				return "", err
			}
			files := a.debs()
			if len(files) != 1 {
				return "", fmt.Errorf("%s left %d packages, not one", programs.get, len(files))
			}
			return files[0], nil
		case <-time.After(tellEvery):
			for _, f := range a.debs() {
				if info, err := os.Stat(f); err == nil {
					tell(info.Size())
				}
			}
		}
	}
}

const tellEvery = 500 * time.Millisecond

// debs returns the packages that are complete, or in progress.
func (a apt) debs() []string {
	var all []string
	for _, pattern := range []string{"*.deb", "cache/archives/partial/*.deb"} {
		files, _ := sanitize.Files(a.file(""), pattern) // fails only on a bad pattern
		all = append(all, files...)
	}
	return all
}
