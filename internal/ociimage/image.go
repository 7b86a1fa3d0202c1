// Package ociimage writes container images of files alone: one layer, no base, and the
// same bytes for the same files, whoever writes them and whenever.
package ociimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "crypto/sha256" // go-digest finds it when it is linked
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is what an image says and holds.
type Image struct {
	Name       string // registry/name:tag
	Arch       string // as GOARCH
	User       string // uid:gid of its processes
	Entrypoint []string
	Labels     map[string]string
	Files      []File
}

// File is a file of the layer, or a folder when its path ends in a slash.
type File struct {
	Path string // from the root, without a leading slash
	Mode int64
	Data []byte
}

// containerdName is the annotation by which containerd names what it imports.
const containerdName = "io.containerd.image.name"

// Write writes the image as a tar in OCI's layout. It also holds the manifest by which
// older versions of `docker load` find their way.
func (m Image) Write(w io.Writer) error {
	layer, diffID, err := m.layer()
	if err != nil {
		return fmt.Errorf("write layer of %s: %w", m.Name, err)
	}
	config, err := json.Marshal(v1.Image{
		Platform: v1.Platform{OS: "linux", Architecture: m.Arch},
		Config:   v1.ImageConfig{User: m.User, Entrypoint: m.Entrypoint, Env: []string{"PATH=/"}, Labels: m.Labels},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    descriptor(v1.MediaTypeImageConfig, config),
		Layers:    []v1.Descriptor{descriptor(v1.MediaTypeImageLayerGzip, layer)},
	})
	if err != nil {
		return err
	}
	entry := descriptor(v1.MediaTypeImageManifest, manifest)
	entry.Platform = &v1.Platform{OS: "linux", Architecture: m.Arch}
	entry.Annotations = map[string]string{containerdName: m.Name, v1.AnnotationRefName: m.Name}
	index, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{entry},
	})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]dockerManifest{{Config: blob(config), RepoTags: []string{m.Name}, Layers: []string{blob(layer)}}})
	if err != nil {
		return err
	}
	return writeTar(w, []File{
		{v1.ImageLayoutFile, 0o644, []byte(`{"imageLayoutVersion":"` + v1.ImageLayoutVersion + `"}`)},
		{v1.ImageIndexFile, 0o644, index},
		{"manifest.json", 0o644, docker},
		{blob(manifest), 0o644, manifest},
		{blob(config), 0o644, config},
		{blob(layer), 0o644, layer},
	})
}

// dockerManifest is an image in the list of `docker save`.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// layer is the image's files, compressed, and the digest of what was compressed.
func (m Image) layer() (compressed []byte, diffID digest.Digest, err error) {
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, m.Files); err != nil {
		return nil, "", err
	}
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(plain.Bytes()); err != nil {
		return nil, "", err
	}
	if err := zip.Close(); err != nil {
		return nil, "", err
	}
	return packed.Bytes(), digest.FromBytes(plain.Bytes()), nil
}

// writeTar writes files with owner and time left at nothing.
func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if f.Path != path.Clean(f.Path) {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.Data); err != nil {
			return err
		}
	}
	return t.Close()
}

func descriptor(mediaType string, data []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// blob is the path of data in the layout.
func blob(data []byte) string {
	d := digest.FromBytes(data)
	return path.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}
