package kernel

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// put writes files below a folder: names to contents.
func put(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// image returns the header of a bzImage of a release.
func image(release string) string {
	b := make([]byte, 4096)
	copy(b[magicAt:], magic)
	binary.LittleEndian.PutUint16(b[releaseAt:], 0x400)
	copy(b[0x400+setupOffset:], release+" (somebody@host) #1 SMP\x00")
	return string(b)
}

// keep makes a store with kernels of these releases.
func keep(t *testing.T, releases ...string) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv(StoreVariable, folder)
	for _, r := range releases {
		put(t, filepath.Join(folder, r), map[string]string{
			"boot/vmlinuz-" + r: image(r), "lib/modules/" + r + "/modules.dep": "", sourceFile: "linux-image-" + r + " 1-1\n",
		})
	}
	return folder
}

func TestFindAmongKept(t *testing.T) {
	folder := keep(t, "6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.95+deb12-amd64", ".fetch-6.1.0-99-amd64")
	for spec, want := range map[string]string{
		"6.1": "6.1.0-56-amd64", "6.12": "6.12.95+deb12-amd64", "6.1.0-9-amd64": "6.1.0-9-amd64",
	} {
		k, err := Find(spec)
		if err != nil || k.Release != want {
			t.Errorf("%s is %q, %v; want %s", spec, k.Release, err, want)
		}
		if want := filepath.Join(folder, k.Release, "lib/modules", k.Release); k.Modules != want {
			t.Errorf("modules of %s are in %q, want %s", spec, k.Modules, want)
		}
	}
	for spec, code := range map[string]int{"5.10": verr.Missing, "6.1.0-1-amd64": verr.Missing, "newest": verr.Usage, "./nothing": verr.Usage} {
		if _, err := Find(spec); verr.Code(err) != code {
			t.Errorf("%s: %v, want code %d", spec, err, code)
		}
	}
	if _, err := Find("5.10"); !strings.Contains(err.Error(), "venturi kernel fetch 5.10") {
		t.Errorf("how to get 5.10 is not told: %v", err)
	}
}

// A stored kernel comes before a file of the same name.
func TestFindBesideFiles(t *testing.T) {
	keep(t, "6.1.0-9-amd64")
	t.Chdir(t.TempDir())
	put(t, ".", map[string]string{"6.1": image("6.9.0-mine"), "6.1.0-9-amd64": "text", "bzImage": image("6.9.0-mine"), "5.10": "text"})
	for spec, want := range map[string]string{
		"6.1": "6.1.0-9-amd64", "6.1.0-9-amd64": "6.1.0-9-amd64", "./6.1": "6.9.0-mine", "bzImage": "6.9.0-mine",
	} {
		if k, err := Find(spec); err != nil || k.Release != want {
			t.Errorf("%s is %q, %v; want %s", spec, k.Release, err, want)
		}
	}
	if _, err := Find("5.10"); verr.Code(err) != verr.Missing {
		t.Errorf("5.10, which is not kept: %v", err)
	}
}

func TestFindFile(t *testing.T) {
	const release = "6.9.0-rc1-mine"
	folder := t.TempDir()
	for name, places := range map[string]map[string]string{
		"beside":    {"bzImage": image(release), "lib/modules/" + release + "/modules.dep": ""},
		"a package": {"boot/bzImage": image(release), "lib/modules/" + release + "/modules.dep": ""},
		"none":      {"bzImage": image(release)},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			put(t, folder, places)
			file := filepath.Join(folder, "bzImage")
			if name == "a package" {
				file = filepath.Join(folder, "boot", "bzImage")
			}
			k, err := Find(file)
			if err != nil || k.Release != release || k.Image != file {
				t.Fatalf("found %+v, %v", k, err)
			}
			want := filepath.Join(folder, "lib/modules", release)
			if name == "none" {
				want = ""
			}
			if k.Modules != want {
				t.Errorf("its modules are in %q, want %q", k.Modules, want)
			}
		})
	}
	put(t, folder, map[string]string{"vmlinux": "\x7fELF", "short": image(release)[:0x300], "odd": image("../../etc")})
	for _, name := range []string{"vmlinux", "short", "odd", "."} {
		if _, err := Find(filepath.Join(folder, name)); err == nil || verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompareReleases(t *testing.T) {
	ordered := []string{"", "5.10.0-46-amd64", "6.1", "6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.90-1", "6.12.95+deb12-amd64"}
	for i := range ordered[1:] {
		if compareReleases(ordered[i], ordered[i+1]) >= 0 || compareReleases(ordered[i+1], ordered[i]) <= 0 {
			t.Errorf("%q is not before %q", ordered[i], ordered[i+1])
		}
	}
	if !slices.Equal(FetchableSeries(), []string{"5.10", "6.1", "6.12"}) {
		t.Errorf("the series are %v", FetchableSeries())
	}
}

func TestRemove(t *testing.T) {
	folder := keep(t, "6.1.0-9-amd64", "6.1.0-56-amd64")
	if err := Remove("6.1.0-56-amd64"); err != nil {
		t.Fatal(err)
	}
	if k, err := Find("6.1"); err != nil || k.Release != "6.1.0-9-amd64" {
		t.Errorf("6.1 is %q, %v", k.Release, err)
	}
	if err := Remove("6.1"); verr.Code(err) != verr.Usage {
		t.Errorf("remove a series: %v", err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 { // the kernel and the lock
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestOneFetchAtATime(t *testing.T) {
	s := store(keep(t, ".fetch-left"))
	unlock, err := s.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(string(s), ".fetch-left")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed fetch left is still there: %v", err)
	}
	if _, err := s.lock(); !errors.Is(err, errOthers) {
		t.Errorf("a second one gives %v", err)
	}
	unlock()
	unlock, err = s.lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A kernel takes the place of another one of its release, which never is gone meanwhile.
func TestPutReplaces(t *testing.T) {
	const release = "6.1.0-9-amd64"
	s := store(keep(t, "6.12.1"))
	folder := filepath.Join(string(s), ".fetch-now")
	for _, text := range []string{"first", "second"} {
		put(t, filepath.Join(folder, "done"), map[string]string{"source": text})
		if err := s.put(filepath.Join(folder, "done"), release, folder); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(string(s), release, "source")); err != nil || string(got) != text {
			t.Errorf("kept is %q, %v, want %q", got, err, text)
		}
		_, moved := os.Stat(filepath.Join(folder, "old"))
		left, err := os.ReadFile(filepath.Join(folder, "done", "source"))
		switch {
		case text == "first" && (!errors.Is(err, os.ErrNotExist) || !errors.Is(moved, os.ErrNotExist)):
			t.Errorf("nothing was replaced, and %q, %v and %v are left", left, err, moved)
		case text == "second" && moved == nil:
			t.Log("this file system cannot exchange folders")
		case text == "second" && string(left) != "first":
			t.Errorf("what was replaced: %q, %v", left, err)
		}
	}
}
