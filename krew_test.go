package venturi_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The manifest for Krew has the digest of each archive, and the archives have what it installs.
func TestKrew(t *testing.T) {
	folder := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(folder, "venturi-linux-"+arch), []byte("program for "+arch), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("scripts/krew", folder, "v1.2.3-rc.1", "https://venturi.example/v1.2.3").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "venturi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Version          string
			ShortDescription string `yaml:"shortDescription"`
			Platforms        []struct {
				Selector struct {
					MatchLabels struct{ OS, Arch string } `yaml:"matchLabels"`
				}
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	s := manifest.Spec
	if manifest.Kind != "Plugin" || manifest.Metadata.Name != "venturi" || s.Version != "v1.2.3-rc.1" || s.ShortDescription == "" || len(s.Platforms) != 2 {
		t.Errorf("the manifest is\n%s", text)
	}
	for _, p := range s.Platforms {
		arch := p.Selector.MatchLabels.Arch
		packed, err := os.ReadFile(filepath.Join(folder, filepath.Base(p.URI)))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(packed)
		if p.SHA256 != hex.EncodeToString(sum[:]) || p.URI != "https://venturi.example/v1.2.3/kubectl-venturi-linux-"+arch+".tar.gz" {
			t.Errorf("%+v", p)
		}
		files := unpackArchive(t, packed)
		if files[p.Bin] != "program for "+arch || files["LICENSE"] == "" || len(files) != 2 {
			t.Errorf("the archive for %s has %q", arch, files)
		}
	}
	if out, err := exec.Command("scripts/krew", folder, "1.2", "x").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("semantic versions")) {
		t.Errorf("a version that is none: %v: %s", err, out)
	}
}

func unpackArchive(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "kubectl-venturi" && h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%+v", h)
		}
		files[h.Name] = string(text)
	}
}
