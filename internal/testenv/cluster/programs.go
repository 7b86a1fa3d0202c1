package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// kubePrograms are the names that the one binary of bin/ answers to.
var kubePrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "flanneld"}

// debianPackages are unpacked and never installed.
var debianPackages = []string{"etcd-server", "containerd", "runc", "containernetworking-plugins"}

// kubeVersion is what the programs say they are; it is that of bin/go.mod.
const kubeVersion = "v1.34.4"

// buildFlags make the binaries the same wherever they are built, and leave out what debuggers
// need: writing that takes the compiler a tenth of its time.
var buildFlags = []string{
	"-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
	"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + kubeVersion,
}

// programs are the files that a cluster runs, in the cache.
type programs struct {
	Kube   string // Kubernetes and Flannel, compressed
	Debian string // root of the unpacked packages
}

// Fetch makes sure that the cache has all programs, those of tests included.
func Fetch(ctx context.Context, say func(string)) error {
	if _, err := fetchPrograms(ctx, say); err != nil {
		return err
	}
	_, err := fetchHelm(ctx, say)
	return err
}

// Helm puts the program of helm/, which installs charts, into a folder.
func Helm(ctx context.Context, dir string, say func(string)) (program string, err error) {
	kept, err := fetchHelm(ctx, say)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "helm")
	return program, unpack(kept, program)
}

func fetchHelm(ctx context.Context, say func(string)) (kept string, err error) {
	if kept, err = helmModule.fetch(ctx, say); err != nil {
		return "", fmt.Errorf("build Helm: %w", err)
	}
	return kept, nil
}

// fetchPrograms finds the programs in the cache, or builds and downloads them: that takes
// ten minutes and more, once for each version.
func fetchPrograms(ctx context.Context, say func(string)) (p programs, err error) {
	if p.Debian, err = fetchDebian(ctx, say); err != nil {
		return p, fmt.Errorf("unpack Debian's packages: %w", err)
	}
	if p.Kube, err = kubeModule.fetch(ctx, say); err != nil {
		return p, fmt.Errorf("build Kubernetes: %w", err)
	}
	return p, nil
}

// debianRoot is where the packages are unpacked.
func debianRoot() string {
	return filepath.Join(cache, "debian-"+shortHash(strings.Join(debianPackages, " ")))
}

// fetchDebian unpacks the packages into the cache.
func fetchDebian(ctx context.Context, say func(string)) (string, error) {
	root := debianRoot()
	return root, keep(ctx, root, say, func(work string) (string, error) {
		say("downloading Debian's packages: " + strings.Join(debianPackages, " "))
		root := filepath.Join(work, "root")
		return root, UnpackDebian(ctx, work, root, debianPackages...)
	})
}

// UnpackDebian downloads packages to one folder and unpacks them into another: nothing is installed.
func UnpackDebian(ctx context.Context, work, root string, packages ...string) error {
	download := append([]string{"apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root"}, packages...)
	if _, err := command(ctx, work, download...); err != nil {
		if _, err := command(ctx, work, "apt-get", "update", "-qq"); err != nil {
			return err
		}
		if _, err := command(ctx, work, download...); err != nil {
			return err
		}
	}
	files, err := sanitize.Files(work, "*.deb")
	for _, file := range files {
		if _, err := command(ctx, work, "dpkg", "-x", file, root); err != nil {
			return err
		}
	}
	return err
}

// module is a program of our own that is built of others' packages, in a folder beside this
// package: the product's go.mod is free of what they need.
type module struct{ folder, holds string }

var (
	kubeModule = module{"bin", "Kubernetes and Flannel"}
	helmModule = module{"helm", "Helm"}
)

// fetch finds the program in the cache, or builds it there. Its key is the source, which
// names all versions, the compiler and its flags.
func (m module) fetch(ctx context.Context, say func(string)) (kept string, err error) {
	root, err := command(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(root), "internal/testenv/cluster", m.folder)
	key, err := sourceHash(ctx, source)
	if err != nil {
		return "", err
	}
	kept = filepath.Join(cache, m.folder+"-"+key+".zst")
	return kept, keep(ctx, kept, say, func(work string) (string, error) {
		say("downloading the modules of " + m.holds)
		binary := filepath.Join(work, m.folder)
		if err := compile(ctx, source, binary, func(text string) { say(m.holds + ": " + text) }); err != nil {
			return "", err
		}
		return binary + ".zst", compress(binary+".zst", binary)
	})
}

// sourceHash is a short digest of what decides over the bytes of a build.
func sourceHash(ctx context.Context, dir string) (string, error) {
	version, err := command(ctx, dir, "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return "", err
	}
	text := version + strings.Join(buildFlags, " ")
	sources, err := sanitize.Files(dir, "*.go")
	if err != nil {
		return "", err
	}
	for _, file := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}, sources...) {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text += string(data)
	}
	return shortHash(text), nil
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func compress(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	z, err := zstd.NewWriter(out)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, in); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Close()
}

// unpackKube puts the binary and its names into a folder.
func unpackKube(kept, dir string) error {
	if err := unpack(kept, filepath.Join(dir, "kube")); err != nil {
		return err
	}
	for _, name := range kubePrograms {
		if err := os.Symlink("kube", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes a program that is kept.
func unpack(kept, program string) error {
	in, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := zstd.NewReader(in)
	if err != nil {
		return err
	}
	defer z.Close()
	out, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, z); err != nil {
		return fmt.Errorf("unpack %s: %w", kept, err)
	}
	return out.Close()
}

// lockFile takes the lock on a file, or fails if somebody has it.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}
