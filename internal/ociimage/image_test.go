package ociimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func write(t *testing.T, m Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// entries reads a tar: the headers by name, and what the files hold.
func entries(t *testing.T, r io.Reader) (headers map[string]*tar.Header, data map[string][]byte) {
	t.Helper()
	headers, data = map[string]*tar.Header{}, map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return headers, data
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
		if data[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// parse reads a file of the layout.
func parse[T any](t *testing.T, files map[string][]byte, name string) (v T) {
	t.Helper()
	if err := json.Unmarshal(files[name], &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// find looks a blob up, and checks its size and its digest.
func find(t *testing.T, files map[string][]byte, d v1.Descriptor) string {
	t.Helper()
	name := "blobs/sha256/" + d.Digest.Encoded()
	if b := files[name]; digest.FromBytes(b) != d.Digest || int64(len(b)) != d.Size {
		t.Fatalf("%s holds %d bytes with digest %s, want %d with %s", name, len(b), digest.FromBytes(b), d.Size, d.Digest)
	}
	return name
}

func TestImage(t *testing.T) {
	binary := bytes.Repeat([]byte("venturi"), 10000)
	m := Venturi("example.org/venturi:v1", "amd64", binary)
	text := write(t, m)
	if !bytes.Equal(text, write(t, m)) {
		t.Error("the same image was written twice, and its bytes differ")
	}
	if bytes.Equal(text, write(t, Venturi("example.org/venturi:v1", "amd64", binary[1:]))) {
		t.Error("the image of another binary has the same bytes")
	}

	headers, files := entries(t, bytes.NewReader(text))
	for name, h := range headers {
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s has owner %d:%d and time %s: want none", name, h.Uid, h.Gid, h.ModTime)
		}
	}
	index := parse[v1.Index](t, files, v1.ImageIndexFile)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations[containerdName] != m.Name {
		t.Fatalf("the index is %+v", index)
	}
	manifest := parse[v1.Manifest](t, files, find(t, files, index.Manifests[0]))
	config := parse[v1.Image](t, files, find(t, files, manifest.Config))
	if c := config.Config; c.User != unprivileged || !slices.Equal(c.Entrypoint, []string{"/venturi"}) || config.Architecture != "amd64" {
		t.Errorf("the configuration is %+v", config)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(files[find(t, files, manifest.Layers[0])]))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest.FromBytes(layer); got != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer's digest is %s, and the configuration says %s", got, config.RootFS.DiffIDs[0])
	}
	headers, files = entries(t, bytes.NewReader(layer))
	if !bytes.Equal(files["venturi"], binary) || headers["venturi"].Mode != 0o755 {
		t.Errorf("the layer holds %d bytes of venturi, mode %o", len(files["venturi"]), headers["venturi"].Mode)
	}
	if tmp := headers["tmp/"]; tmp == nil || tmp.Typeflag != tar.TypeDir || tmp.Mode != 0o1777 {
		t.Errorf("the layer's /tmp is %+v", tmp)
	}
}
