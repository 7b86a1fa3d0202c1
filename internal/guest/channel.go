package guest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// portFolder is where the kernel lists the ports of virtio-serial devices.
const portFolder = "/sys/class/virtio-ports"

// NoChannel begins the error of a first process that finds no port for the channel: the kernel
// lacks the driver.
const NoChannel = "find the channel: none of"

// openPort opens the channel's port, which appears as soon as the driver is loaded.
func openPort() (*os.File, error) {
	var found []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		names, err := sanitize.Files(portFolder, "*/name")
		if err != nil {
			return nil, fmt.Errorf("find the channel: %w", err)
		}
		for _, file := range names {
			name, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(name)) != Port {
				continue
			}
			device := filepath.Join("/dev", filepath.Base(filepath.Dir(file)))
			f, err := os.OpenFile(device, os.O_RDWR, 0)
			if err != nil {
				return nil, fmt.Errorf("open the channel: %w", err)
			}
			return f, nil
		}
		found = names
	}
	return nil, fmt.Errorf("%s %d virtio-serial ports is named %s", NoChannel, len(found), Port)
}

// Session multiplexes streams over one end of the channel; inside is the accepting end. writeLimit
// limits how long the other end may take to answer or to read.
func Session(conn io.ReadWriteCloser, inside bool, writeLimit time.Duration) (*yamux.Session, error) {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // the owner of the machine sends its own, once it has started
	c.StreamOpenTimeout = 0   // a machine may start slowly
	c.ConnectionWriteTimeout = writeLimit
	c.StreamCloseTimeout = 24 * time.Hour // a user may read a command's output at leisure
	c.LogOutput = io.Discard              // the errors say all of it
	if inside {
		return yamux.Server(conn, c)
	}
	return yamux.Client(conn, c)
}
