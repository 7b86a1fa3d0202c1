package kernel

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

func TestSourcesOfTheMachine(t *testing.T) {
	get, err := exec.LookPath("apt-get")
	if err != nil {
		t.Skip(err)
	}
	const pkg = "Package: a\nVersion: 1\nArchitecture: amd64\n"
	for name, test := range map[string]struct {
		file, text     string
		main, security string
	}{
		"a stanza a suite": {"sources.list.d/debian.sources", `Types: deb deb-src
# a comment
URIs: http://mirror.test/debian
Suites: bookworm
 bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://elsewhere.test/debian-security
Suites: bookworm-security
Components: main
`, "http://mirror.test/debian", "http://elsewhere.test/debian-security"},
		"lines": {"sources.list", `# deb http://old.test/debian bookworm main
deb-src http://source.test/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://mirror.test/debian/ trixie main # and a word
`, "https://mirror.test/debian", "https://mirror.test/debian-security"},
		"a list of mirrors": {"sources.list", `deb mirror+file:/etc/apt/mirrors/debian.list bookworm main
deb mirror+file:/etc/apt/mirrors/debian-security.list bookworm-security main
`, "mirror+file:/etc/apt/mirrors/debian.list", "mirror+file:/etc/apt/mirrors/debian-security.list"},
		"others who call suites alike": {"sources.list.d/others.list", `deb https://tools.test bookworm main
deb https://boxes.test/linux/debian bookworm stable
deb cdrom:[Debian]/debian bookworm main
`, "", ""},
		"a suite of security": {"sources.list", "deb http://mirror.test/debian bullseye main\ndeb http://elsewhere.test/debian-security bullseye/updates main\n",
			"http://mirror.test/debian", "http://elsewhere.test/debian-security"},
		"switched off":        {"sources.list.d/debian.sources", "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n", "", ""},
		"a name of its own":   {"sources.list", "deb http://cache.test/d12 bookworm main\n", "http://cache.test/d12", ""},
		"others of that name": {"sources.list", "deb http://cache.test/d11 bookworm main\n", "", ""},
		"none":                {"sources.list", "deb http://archive.test/ubuntu noble main\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, map[string]string{
				"etc/apt/" + test.file: test.text, "etc/apt/sources.list.d/empty.list": "",
				"var/lib/apt/lists/cache.test_d12_dists_bookworm_Release":                    "Origin: Debian\nCodename: bookworm\n",
				"var/lib/apt/lists/cache.test_d12_dists_bookworm_main_binary-amd64_Packages": pkg,
				"var/lib/apt/lists/cache.test_d11_dists_bookworm_Release":                    "Origin: Others\nCodename: bookworm\n",
				"var/lib/apt/lists/cache.test_d11_dists_bookworm_main_binary-amd64_Packages": pkg,
				"status": "",
			})
			a, err := fromMachine(t.Context(), get, "-o", "Dir="+root, "-o", "Dir::State::status="+root+"/status", "-o", "APT::Architecture=amd64")
			if test.main == "" {
				if verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), "--mirror") {
					t.Errorf("found %+v, %v", a, err)
				}
				return
			}
			if want := (archives{test.main, test.security}); err != nil || a != want {
				t.Errorf("found %+v, %v; want %+v", a, err, want)
			}
		})
	}
}

func TestMirror(t *testing.T) {
	a, err := fromMirror("https://m.test/pub/debian")
	if err != nil || a.forSuite("bookworm-security") != "https://m.test/pub/debian-security" || a.forSuite("bookworm") != "https://m.test/pub/debian" {
		t.Errorf("a mirror is %+v, %v", a, err)
	}
	for _, bad := range []string{"m.test", "http://m.test/ x\ndeb http://evil.test", "http://m.test/[trusted=yes]", "%zz"} {
		if _, err := fromMirror(bad); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPick(t *testing.T) {
	const shown = `Package: linux-image-amd64
Version: 6.16.3-1~bpo12+1
Depends: linux-image-6.16.3+deb12-amd64 (= 6.16.3-1~bpo12+1)
Description: Linux for 64-bit PCs
 A paragraph: of text.

Package: linux-image-amd64
Version: 6.12.9-1~bpo12+1
Depends: linux-image-6.12.9+deb12-amd64 (= 6.12.9-1~bpo12+1), something

Package: linux-image-amd64
Version: 6.12.95-1
Depends: linux-image-6.12.95+deb13-amd64 (= 6.12.95-1)
`
	name, version, err := pick(shown, "6.12")
	if err != nil || name != "linux-image-6.12.95+deb13-amd64" || version != "6.12.95-1" {
		t.Errorf("picks %q %q, %v", name, version, err)
	}
	if _, _, err := pick(shown, "6.1"); err == nil {
		t.Error("6.16 passes for 6.1")
	}
}

func TestComplaints(t *testing.T) {
	text := "W: Some warning\nE: The repository has no Release file.\nN: See apt-secure(8)\nE: Second\nE: Third\n"
	if got := complaints(text); got != "The repository has no Release file.; Second" {
		t.Errorf("of apt's complaints stays %q", got)
	}
	if got := complaints("depmod: ERROR: could not open\n"); got != "depmod: ERROR: could not open" {
		t.Errorf("of depmod's stays %q", got)
	}
}

func TestFetchRefuses(t *testing.T) {
	keep(t, "6.1.0-9-amd64")
	k, fresh, err := Fetch(t.Context(), FetchRequest{Series: "6.1"}, nil)
	if err != nil || fresh || k.Release != "6.1.0-9-amd64" {
		t.Errorf("what is kept is not enough: %+v, %v, %v", k, fresh, err)
	}
	if _, _, err := Fetch(t.Context(), FetchRequest{Series: "7.77"}, nil); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "5.10, 6.1, 6.12") {
		t.Errorf("an unknown series: %v", err)
	}
}

// A handmade package with the folders of Debian's becomes a kernel of the store.
func TestBuild(t *testing.T) {
	const release = "6.1.0-1-amd64"
	f := fetcher{}
	for name, to := range map[string]*string{"dpkg-deb": &f.programs.deb, "depmod": &f.programs.depmod} {
		file, err := exec.LookPath(name)
		if err != nil {
			file = "/usr/sbin/" + name
		}
		if _, err := os.Stat(file); err != nil {
			t.Skipf("no %s here", name)
		}
		*to = file
	}
	modules := "usr/lib/modules/" + release + "/"
	content, folder := t.TempDir(), keep(t)
	put(t, content, map[string]string{
		"DEBIAN/control":          "Package: linux-image-" + release + "\nVersion: 6.1.1-1\nArchitecture: amd64\nMaintainer: a <a@b.test>\nDescription: d\n",
		"boot/vmlinuz-" + release: image(release), "boot/config-" + release: "CONFIG_NET=y\n", "boot/System.map-" + release: "0 T x\n",
		modules + "kernel/sound/snd.ko": "noise", modules + "kernel/drivers/gpu/drm/drm.ko": "pictures",
		modules + "modules.builtin": "kernel/net/core.ko\n", modules + "modules.order": "", modules + "kernel/net/x.txt": "kept",
		"usr/share/doc/linux/copyright": "GPL",
	})
	if err := os.Symlink("/usr/src/headers", filepath.Join(content, modules, "build")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "linux.deb")
	if out, err := exec.Command(f.programs.deb, "--root-owner-group", "-Zgzip", "--build", content, file).CombinedOutput(); err != nil {
		t.Fatalf("build a package: %v: %s", err, out)
	}
	d := deb{"linux-image-" + release, "6.1.1-1", 0}
	work := t.TempDir()
	if err := f.build(t.Context(), file, d, filepath.Join(work, "done")); err != nil {
		t.Fatal(err)
	}
	if err := store(folder).put(filepath.Join(work, "done"), release, work); err != nil {
		t.Fatal(err)
	}
	k, err := Find("6.1")
	if err != nil || k.Source != d.String() || k.Modules == "" {
		t.Fatalf("the store has %+v, %v", k, err)
	}
	if _, err := k.Load("core"); err != nil {
		t.Errorf("its tables cannot be read: %v", err)
	}
	for name, there := range map[string]bool{"kernel/net/x.txt": true, "kernel/sound": false, "kernel/drivers": false, "build": false, "modules.dep": true} {
		if _, err := os.Lstat(filepath.Join(k.Modules, name)); (err == nil) != there {
			t.Errorf("%s: there=%v, want %v", name, err == nil, there)
		}
	}

	// A broken package leaves no kernel.
	if err := os.Truncate(file, 400); err != nil {
		t.Fatal(err)
	}
	if err := f.build(t.Context(), file, d, filepath.Join(work, "broken")); err == nil {
		t.Error("a package that is cut off is unpacked without an error")
	}
	// Neither does an interrupted fetch.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.build(ctx, file, d, filepath.Join(work, "stopped")); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}

func TestWanted(t *testing.T) {
	const release = "6.1.0-1-amd64"
	for name, want := range map[string]string{
		"./boot/vmlinuz-" + release:                          "boot/vmlinuz-" + release,
		"./lib/modules/" + release + "/modules.order":        "lib/modules/" + release + "/modules.order",
		"./../../etc/passwd":                                 "",
		"./lib/modules/" + release + "/../../../etc/passwd":  "",
		"./lib/modules/6.1.0-2-amd64/modules.order":          "",
		"./lib/modules/" + release + "/kernel/sound/x.ko.xz": "",
	} {
		if got := wanted(name, release); got != want {
			t.Errorf("%s becomes %q, want %q", name, got, want)
		}
	}
}
