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

// NoChannel is what the first process gives up with when the kernel shows no
// port for the channel: it lacks the driver.
const NoChannel = "find the channel: none of"

// openPort opens the port that the channel is. It is there as soon as its
// driver is.
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

// Session makes streams of one end of the channel: inside is the one that
// accepts. patience is how long the other end may take to answer or to read.
func Session(conn io.ReadWriteCloser, inside bool, patience time.Duration) (*yamux.Session, error) {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // who holds the machine asks, once it has started
	c.StreamOpenTimeout = 0   // a machine may start slowly
	c.ConnectionWriteTimeout = patience
	c.StreamCloseTimeout = 24 * time.Hour // a person may read what a command wrote in peace
	c.LogOutput = io.Discard              // it says nothing that the errors do not
	if inside {
		return yamux.Server(conn, c)
	}
	return yamux.Client(conn, c)
}
