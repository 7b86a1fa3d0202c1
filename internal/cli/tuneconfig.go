package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

const configHelp = "file with DEVICE, TUNING_CILIUM, CILIUM_NAMESPACE and CILIUM_CONFIG_MAP_NAME, as the\npublished script for Cilium reads it: DEVICE counts as one more --dev, and manifests\nare left alone unless TUNING_CILIUM is true"

// readConfig reads such a file, and says what of it means nothing.
func readConfig(file string, say io.Writer) (tune.Config, error) {
	c, err := tune.ReadConfig(file)
	if err == nil && len(c.Unknown) > 0 {
		sanitize.Fprintf(say, "venturi: %s has names that mean nothing here: %s\n", file, strings.Join(c.Unknown, ", "))
	}
	return c, err
}

// heed adds what such a file names.
func (n *targetFlags) heed(file string, say io.Writer) error {
	c, err := readConfig(file, say)
	if err != nil {
		return err
	}
	if c.Device != "" && !slices.Contains(n.dev, c.Device) {
		n.dev = append(n.dev, c.Device)
	}
	switch {
	case c.Cilium && len(n.manifest) == 0:
		return verr.New(verr.Usage, "cannot tune Cilium", fmt.Sprintf("%s asks for it, but no manifest with ConfigMap %s of namespace %s is given", file, c.Name, c.Namespace),
			fmt.Sprintf("give it with --manifest: kubectl -n %s get configmap %s -o yaml >cilium-config.yaml", sanitize.Shell(c.Namespace), sanitize.Shell(c.Name)))
	case !c.Cilium && len(n.manifest) > 0:
		sanitize.Fprintf(say, "venturi: TUNING_CILIUM is not true in %s: manifests are left alone\n", file)
		n.manifest = nil
	}
	return nil
}
