package tune

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// Config is what the published script for Cilium is told by a file of its own:
// assignments as a shell reads them.
type Config struct {
	Device    string   // DEVICE: the network card
	Namespace string   // CILIUM_NAMESPACE: of the ConfigMap
	Name      string   // CILIUM_CONFIG_MAP_NAME
	Cilium    bool     // TUNING_CILIUM: whether Cilium is tuned from this node too; true on one of them only
	Unknown   []string // names that mean nothing here
}

// configLine is a line of such a file. A word is bare or in one pair of quotes;
// nothing is expanded.
var configLine = regexp.MustCompile(`^(?:export\s+)?([A-Za-z_]\w*)=(?:'([^']*)'|"([^"$` + "`" + `\\]*)"|([^\s'"$` + "`" + `\\;&|<>()]*))\s*(?:#.*)?$`)

// ReadConfig reads such a file. Nothing in it is carried out. Errors: it cannot be
// read, or it does more than to assign words (exit code 2).
func ReadConfig(file string) (Config, error) {
	what := "cannot read the config " + file
	text, err := os.ReadFile(file)
	if err != nil {
		return Config{}, verr.Wrap(verr.Usage, what, err, "name the file with --config")
	}
	c := Config{Namespace: "kube-system", Name: "cilium-config"}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := configLine.FindStringSubmatch(line)
		if m == nil {
			return Config{}, verr.New(verr.Usage, what, fmt.Sprintf("line %d is not of the form NAME=WORD: %q", number, line), "write plain values; the file is not run as a script")
		}
		value := m[2] + m[3] + m[4]
		switch m[1] {
		case "DEVICE":
			c.Device = value
		case "CILIUM_NAMESPACE":
			c.Namespace = value
		case "CILIUM_CONFIG_MAP_NAME":
			c.Name = value
		case "TUNING_CILIUM":
			if value != "true" && value != "false" && value != "" {
				return Config{}, verr.New(verr.Usage, what, fmt.Sprintf("TUNING_CILIUM is %q", value), "write true on one node of the cluster, and false on all others")
			}
			c.Cilium = value == "true"
		default:
			c.Unknown = append(c.Unknown, m[1])
		}
	}
	return c, nil
}
