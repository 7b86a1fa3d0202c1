package tune

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

func TestReadConfig(t *testing.T) {
	plain := Config{Namespace: "kube-system", Name: "cilium-config"}
	for _, c := range []struct {
		text string
		want Config
		code int
	}{
		{"", plain, 0},
		{"# of a node\nDEVICE=ens192\nTUNING_CILIUM=true # once\n\nexport CILIUM_NAMESPACE='cilium'\nCILIUM_CONFIG_MAP_NAME=\"my-config\"\nGITHUB_MIRROR=https://mirror.example\n",
			Config{"ens192", "cilium", "my-config", true, []string{"GITHUB_MIRROR"}}, 0},
		{"TUNING_CILIUM=false\n", plain, 0},
		{"TUNING_CILIUM=yes\n", Config{}, verr.Usage},
		{"DEVICE=$(ip route)\n", Config{}, verr.Usage},
		{"DEVICE=eth0; reboot\n", Config{}, verr.Usage},
		{"DEVICE=`x`\n", Config{}, verr.Usage},
		{"DEVICE=\"$NIC\"\n", Config{}, verr.Usage},
		{"echo DEVICE=eth0\n", Config{}, verr.Usage},
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConfig(file)
		if !reflect.DeepEqual(got, c.want) || verr.Code(err) != c.code {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
	if _, err := ReadConfig("/no/such"); verr.Code(err) != verr.Usage {
		t.Errorf("%v", err)
	}
}
