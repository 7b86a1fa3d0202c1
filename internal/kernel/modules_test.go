package kernel

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// compressed returns the contents of a file with this extension.
func compressed(t *testing.T, ext, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ext {
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	case ".gz":
		w = gzip.NewWriter(&b)
	default:
		return text
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// modules makes a folder of modules with tables as depmod writes them.
func modules(t *testing.T) Kernel {
	t.Helper()
	folder := t.TempDir()
	put(t, folder, map[string]string{
		"modules.dep": `kernel/net/openvswitch/openvswitch.ko.xz: kernel/lib/libcrc32c.ko.zst kernel/net/ipv6/nf-nat.ko
kernel/lib/libcrc32c.ko.zst:
kernel/net/ipv6/nf-nat.ko: kernel/lib/libcrc32c.ko.zst
kernel/arch/x86/crc32c-intel.ko.gz:
kernel/crypto/crc32c_generic.ko:
kernel/fs/9p/9p.ko: kernel/net/core.ko
`,
		"modules.builtin": "kernel/drivers/virtio/virtio_pci.ko\nkernel/net/core.ko\n",
		"modules.softdep": "# made by depmod\nsoftdep libcrc32c pre: crc32c post: nonesuch\n",
		"modules.alias":   "alias crc32c crc32c_intel\nalias crc32c crc32c_generic\nalias crc32* wrong\n",
		"kernel/net/openvswitch/openvswitch.ko.xz": compressed(t, ".xz", "an xz"),
		"kernel/lib/libcrc32c.ko.zst":              compressed(t, ".zst", "a zst"),
		"kernel/net/ipv6/nf-nat.ko":                "plain",
		"kernel/arch/x86/crc32c-intel.ko.gz":       compressed(t, ".gz", "a gz"),
		"kernel/crypto/crc32c_generic.ko":          "plain too",
		"kernel/fs/9p/9p.ko":                       "9p",
	})
	return Kernel{Release: "6.1.0-1-amd64", Modules: folder}
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct{ want, order, content string }{
		"dependencies and soft ones first": {"openvswitch", "crc32c_intel? crc32c_generic? libcrc32c nf_nat openvswitch", "a gz,plain too,a zst,plain,an xz"},
		"by either spelling":               {"nf-nat", "crc32c_intel? crc32c_generic? libcrc32c nf_nat", "a gz,plain too,a zst,plain"},
		"built in":                         {"virtio_pci", "", ""},
		"depends on what is built in":      {"9p", "9p", "9p"},
		"needed after all":                 {"libcrc32c crc32c_generic", "crc32c_intel? crc32c_generic libcrc32c", "a gz,plain too,a zst"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := modules(t).Load(strings.Fields(test.want)...)
			if err != nil {
				t.Fatal(err)
			}
			var names, contents []string
			for _, m := range list {
				name := m.Name
				if m.Optional {
					name += "?"
				}
				data, err := m.Open()
				if err != nil {
					t.Error(err)
				}
				names, contents = append(names, name), append(contents, string(data))
			}
			if got := strings.Join(names, " "); got != test.order {
				t.Errorf("loads %q, want %q", got, test.order)
			}
			if got := strings.Join(contents, ","); got != test.content {
				t.Errorf("the files hold %q, want %q", got, test.content)
			}
		})
	}
}

func TestLoadWhatIsNotThere(t *testing.T) {
	k := modules(t)
	if _, err := k.Load("9p", "netkit"); err == nil || !strings.Contains(err.Error(), "has no module netkit") {
		t.Errorf("no module netkit: %v", err)
	}
	k.Modules = t.TempDir()
	if _, err := k.Load("9p"); err == nil || !strings.Contains(err.Error(), "depmod") {
		t.Errorf("no tables: %v", err)
	}
	k.Modules = ""
	if list, err := k.Load("9p"); err != nil || len(list) > 0 {
		t.Errorf("no folder of modules: %v, %v", list, err)
	}
}

func TestReadModuleDamaged(t *testing.T) {
	folder := t.TempDir()
	var names []string
	for _, ext := range []string{".xz", ".zst", ".gz"} {
		whole := compressed(t, ext, strings.Repeat("code ", 1000))
		put(t, folder, map[string]string{"cut.ko" + ext: whole[:len(whole)/2], "not.ko" + ext: "something else"})
		names = append(names, "cut.ko"+ext, "not.ko"+ext)
	}
	for _, name := range slices.Concat(names, []string{"none.ko"}) {
		if _, err := readModule(folder + "/" + name); err == nil {
			t.Errorf("%s is read without an error", name)
		}
	}
}
