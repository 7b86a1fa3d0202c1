package kernel

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// useless matches modules for hardware that no virtual machine has.
var useless = []string{
	"sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless", "drivers/iio",
	"drivers/isdn", "drivers/bluetooth", "drivers/hwmon", "drivers/platform", "drivers/usb", "drivers/hid",
	"drivers/input", "drivers/video", "drivers/mtd", "drivers/scsi", "drivers/infiniband/hw",
	"net/bluetooth", "net/wireless", "net/mac80211",
}

// unpack extracts what a virtual machine needs from a kernel package: the image, its configuration
// and its modules.
func unpack(ctx context.Context, programs tools, file, release, folder string) error {
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.deb, "--fsys-tarfile", file)
	cmd.Stderr, cmd.WaitDelay = &said, stopGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = extract(out, release, folder)
	if err != nil {
		cancel() // it may wait for a reader
	}
	ended := cmd.Wait()
	switch {
	case context.Cause(ctx) != nil && err == nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case ended != nil:
		return fmt.Errorf("%s: %w", filepath.Base(programs.deb), errors.Join(ended, errors.New(complaints(said.String()))))
	}
	if _, err := os.Stat(filepath.Join(folder, "boot", "vmlinuz-"+release)); err != nil {
		return fmt.Errorf("the package has no kernel: %w", err)
	}
	return nil
}

// extract writes the wanted files of a package below a folder.
func extract(r io.Reader, release, folder string) error {
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if err == io.EOF {
			// Drain the padding, or the writer would block.
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		name := wanted(h.Name, release)
		if name == "" || h.Typeflag != tar.TypeReg {
			continue // the links lead to kernel headers, which are absent
		}
		if err := write(filepath.Join(folder, name), files); err != nil {
			return err
		}
	}
}

// wanted returns the path in the store for a package's file; empty means that it is not stored.
func wanted(name, release string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "boot/vmlinuz-"+release || name == "boot/config-"+release {
		return name
	}
	modules := path.Join("lib/modules", release)
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "usr/"), modules+"/")
	if !ok {
		return ""
	}
	for _, u := range useless {
		if strings.HasPrefix(rest, "kernel/"+u+"/") {
			return ""
		}
	}
	return path.Join(modules, rest)
}

func write(file string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
