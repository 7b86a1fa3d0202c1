package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// hostile is a configuration that lets apt accept anything.
const hostile = `APT::Get::AllowUnauthenticated "true";
APT::Get::Force-Yes "true";
Acquire::AllowInsecureRepositories "true";
Acquire::AllowWeakRepositories "true";
Acquire::AllowDowngradeToInsecureRepositories "true";
`

// unsigned makes an unsigned archive with a kernel, and returns the apt that fetches from it.
func unsigned(t *testing.T) fetcher {
	t.Helper()
	f := fetcher{FetchRequest: FetchRequest{Series: "6.1"}}
	for name, to := range map[string]*string{"apt-get": &f.programs.get, "apt-cache": &f.programs.cache, "dpkg-deb": &f.programs.deb} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		*to = found
	}
	const release = "6.1.0-1-amd64"
	archive, content := t.TempDir(), t.TempDir()
	put(t, content, map[string]string{
		"DEBIAN/control":          "Package: linux-image-" + release + "\nVersion: 6.1.1-1\nArchitecture: amd64\nMaintainer: a <a@b.test>\nDescription: d\n",
		"boot/vmlinuz-" + release: image(release),
	})
	file := filepath.Join(archive, "linux.deb")
	if out, err := exec.Command(f.programs.deb, "--root-owner-group", "-Zgzip", "--build", content, file).CombinedOutput(); err != nil {
		t.Fatalf("build a package: %v: %s", err, out)
	}
	sum, err := exec.Command("sha256sum", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, archive, map[string]string{
		"dists/bookworm/Release": "Origin: Debian\nSuite: oldstable\nCodename: bookworm\nArchitectures: amd64\nComponents: main\n",
		"dists/bookworm/main/binary-amd64/Packages": "Package: linux-image-" + release + "\nVersion: 6.1.1-1\nArchitecture: amd64\n" +
			"Maintainer: a <a@b.test>\nFilename: linux.deb\nSize: " + strconv.FormatInt(info.Size(), 10) + "\nSHA256: " + strings.Fields(string(sum))[0] + "\nDescription: d\n\n" +
			"Package: " + meta + "\nVersion: 6.1.1-1\nArchitecture: amd64\nMaintainer: a <a@b.test>\nFilename: meta.deb\nSize: 1\nSHA256: " + strings.Repeat("0", 64) +
			"\nDepends: linux-image-" + release + " (= 6.1.1-1)\nDescription: d\n",
	})
	f.archives.main = "file:" + archive
	if f.keys, err = keyring("/"); err != nil {
		t.Skip(err)
	}
	return f
}

// Unsigned packages are refused, whatever the environment and the host's configuration say.
func TestUnsignedArchive(t *testing.T) {
	f := unsigned(t)
	config := filepath.Join(t.TempDir(), "apt.conf")
	put(t, filepath.Dir(config), map[string]string{"apt.conf": hostile})

	t.Run("in the environment", func(t *testing.T) {
		t.Setenv("APT_CONFIG", config)
		s := store(keep(t))
		_, fresh, err := f.fetch(t.Context(), s, func(string, int64, int64) {})
		if err == nil || fresh || !strings.Contains(err.Error(), "is not signed") {
			t.Errorf("fetches %v, %v", fresh, err)
		}
		if kept, err := s.list(); err != nil || len(kept) > 0 {
			t.Errorf("the store has %v, %v", kept, err)
		}
	})

	// apt reads the file in APT_CONFIG before ours.
	for _, c := range []struct {
		name    string
		after   []string
		refused bool
	}{
		{"of the machine", nil, true},
		{"but for our options it would be taken", []string{"-o", "Acquire::AllowInsecureRepositories=true", "-o", "APT::Get::AllowUnauthenticated=true"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := apt{t.TempDir()}
			if err := a.setUp(f.archives, f.keys, []string{"bookworm"}); err != nil {
				t.Fatal(err)
			}
			for _, words := range [][]string{{"update"}, {"download", "linux-image-6.1.0-1-amd64"}} {
				cmd := exec.Command(f.programs.get, append(append([]string{"-q", "-q", "-c", a.file("config")}, c.after...), words...)...)
				cmd.Dir, cmd.Env = a.folder, append(os.Environ(), "LC_ALL=C", "APT_CONFIG="+config)
				if out, err := cmd.CombinedOutput(); (err != nil) != c.refused {
					t.Errorf("%v: %v: %s", words, err, out)
				}
			}
			if files := a.debs(); (len(files) == 0) != c.refused {
				t.Errorf("got %v", files)
			}
		})
	}
}
