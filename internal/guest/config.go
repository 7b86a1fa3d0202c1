package guest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Paths in the guest's initramfs, besides the program as /init.
const (
	ConfigFile   = "/venturi.json"
	ModuleFolder = "/modules" // files of Config.Modules
)

// Role is the first argument of the guest's first process, after those of vm.Config.Program.
const Role = "guest-init"

// Names of what the host shares with the guest: the port of the channel, and the tags of file
// systems. The n-th writable folder has a tag of its own.
const (
	Port       = "venturi"
	RootTag    = "root"
	ModulesTag = "modules"
)

// WritableTag is the tag of the n-th writable folder.
func WritableTag(n int) string { return fmt.Sprintf("writable%d", n) }

// Config configures the guest's first process.
type Config struct {
	Hostname string
	Release  string   // of the kernel
	Modules  []Module // to load, in this order
	Root     bool     // the host's file system is shared under RootTag
	HasKmod  bool     // the kernel's module folder is shared under ModulesTag
	Writable []string // folders, shared under WritableTag
	NICs     []NIC
	Settings []netcfg.Sysctl
	Agent    string // serve as the agent of this name; empty: run commands
}

// Module is a kernel module in ModuleFolder.
type Module struct {
	File     string
	Optional bool // the kernel may refuse it
}

// NIC configures a network card.
type NIC struct {
	MAC        string // identifies the card
	Addr       netip.Prefix
	Neighbours []Neighbour
}

// Neighbour is a permanent entry of the neighbour table.
type Neighbour struct {
	Addr netip.Addr
	MAC  string
}

func readConfig() (Config, error) {
	var c Config
	text, err := os.ReadFile(ConfigFile)
	if err != nil {
		return c, fmt.Errorf("read config: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("decode config: %w", err)
	}
	return c, nil
}

func (m Module) path() string { return path.Join(ModuleFolder, m.File) }
