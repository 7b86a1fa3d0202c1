package guest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// What stands in the guest's first file system, beside the program as /init.
const (
	ConfigFile   = "/venturi.json"
	ModuleFolder = "/modules" // files of Config.Modules
)

// Role is the first argument of the guest's first process, behind those of
// vm.Config.Program.
const Role = "guest-init"

// Names of what the machine outside lends the guest: the port that the channel
// is, and the tags of file systems. The n-th writable folder has a tag of its own.
const (
	Port       = "venturi"
	RootTag    = "root"
	ModulesTag = "modules"
)

// WritableTag is the tag of the n-th writable folder.
func WritableTag(n int) string { return fmt.Sprintf("writable%d", n) }

// Config is what the guest's first process is told.
type Config struct {
	Hostname string
	Release  string   // of the kernel
	Modules  []Module // to load, in this order
	Root     bool     // the file system of the machine outside is there, by RootTag
	HasKmod  bool     // so is the folder of the kernel's modules, by ModulesTag
	Writable []string // folders, by WritableTag
	NICs     []NIC
	Settings []netcfg.Sysctl
	Agent    string // be the agent of this machine; empty: run commands
}

// Module is a file of the kernel's, in ModuleFolder.
type Module struct {
	File     string
	Optional bool // the kernel may refuse it
}

// NIC says how to set up a network card.
type NIC struct {
	MAC        string // finds it
	Addr       netip.Prefix
	Neighbours []Neighbour
}

// Neighbour is an entry of the neighbour table that never expires.
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
