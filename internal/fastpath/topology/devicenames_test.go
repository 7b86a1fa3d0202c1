package topology_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A daemon of an earlier version may have written the file that is read.
func TestDeviceNamesOfEarlierVersions(t *testing.T) {
	want := topology.DeviceNames{Wire: "eth0", Tunnels: []string{"gnv1"}, GenevePort: 6081, Pods: []string{"cali1"}, Node: true}
	now, err := json.Marshal(want)
	testenv.Must(t, err)
	if text := string(now); text != `{"wire":"eth0","tunnels":["gnv1"],"geneve_port":6081,"pods":["cali1"],"node":true}` {
		t.Errorf("written as %s", text)
	}
	for _, text := range []string{string(now), `{"Wire":"eth0","Tunnels":["gnv1"],"GenevePort":6081,"Pods":["cali1"],"Node":true}`} {
		var got topology.DeviceNames
		testenv.Must(t, json.Unmarshal([]byte(text), &got))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
