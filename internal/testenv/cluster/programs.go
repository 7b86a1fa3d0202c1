package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

// kubePrograms are the names that the one binary of bin/ answers to.
var kubePrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "flanneld"}

// debianPackages are unpacked and never installed.
var debianPackages = []string{"etcd-server", "containerd", "runc", "containernetworking-plugins"}

// kubeVersion is what the programs say they are; it is that of bin/go.mod.
const kubeVersion = "v1.34.4"

// buildFlags make the binary the same wherever it is built.
var buildFlags = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + kubeVersion}

// programs are the files that a cluster runs, in the cache.
type programs struct {
	Kube   string // Kubernetes and Flannel, compressed
	Debian string // root of the unpacked packages
}

// Fetch makes sure that the cache has all programs.
func Fetch(ctx context.Context, say func(string)) error {
	_, err := fetchPrograms(ctx, say)
	return err
}

// fetchPrograms finds the programs in the cache, or builds and downloads them: that takes
// ten minutes and more, once for each version.
func fetchPrograms(ctx context.Context, say func(string)) (p programs, err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return p, err
	}
	unlock, err := lockFile(filepath.Join(cache, "lock"), true)
	if err != nil {
		return p, err
	}
	defer unlock()
	if p.Debian, err = fetchDebian(ctx, say); err != nil {
		return p, fmt.Errorf("unpack Debian's packages: %w", err)
	}
	if p.Kube, err = buildKube(ctx, say); err != nil {
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
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	say("downloading Debian's packages: " + strings.Join(debianPackages, " "))
	work, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	download := append([]string{"apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root"}, debianPackages...)
	if _, err := command(ctx, work, download...); err != nil {
		if _, err := command(ctx, work, "apt-get", "update", "-qq"); err != nil {
			return "", err
		}
		if _, err := command(ctx, work, download...); err != nil {
			return "", err
		}
	}
	entries, err := os.ReadDir(work)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".deb" {
			if _, err := command(ctx, work, "dpkg", "-x", e.Name(), "root"); err != nil {
				return "", err
			}
		}
	}
	return root, os.Rename(filepath.Join(work, "root"), root)
}

// buildKube builds the binary of bin/ into the cache. Its key is the source, which names
// all versions, the compiler and its flags.
func buildKube(ctx context.Context, say func(string)) (string, error) {
	root, err := command(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(root), "internal/testenv/cluster/bin")
	key, err := sourceHash(ctx, source)
	if err != nil {
		return "", err
	}
	kept := filepath.Join(cache, "kube-"+key+".zst")
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	say("building Kubernetes and Flannel; this takes ten minutes on two idle cores, once for each version")
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "kube")
	build := append([]string{"env", "CGO_ENABLED=0", "go", "build", "-o", binary}, buildFlags...)
	if _, err := command(ctx, source, append(build, ".")...); err != nil {
		return "", err
	}
	if err := compress(binary+".zst", binary); err != nil {
		return "", err
	}
	return kept, os.Rename(binary+".zst", kept)
}

// sourceHash is a short digest of what decides over the bytes of a build.
func sourceHash(ctx context.Context, dir string) (string, error) {
	version, err := command(ctx, dir, "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return "", err
	}
	text := version + strings.Join(buildFlags, " ")
	for _, name := range []string{"go.mod", "go.sum", "main.go", "flannel.go"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
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
	binary := filepath.Join(dir, "kube")
	out, err := os.OpenFile(binary, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, z); err != nil {
		return fmt.Errorf("unpack %s: %w", kept, err)
	}
	for _, name := range kubePrograms {
		if err := os.Symlink("kube", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return out.Close()
}

// command runs a program to its end and gives what it printed; an error says that too.
func command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// lockFile takes the lock on a file; without wait, it fails if somebody has it.
func lockFile(path string, wait bool) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}
