package cni

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Every plugin's settings are read from what its cluster's API gives; a cluster without its
// objects shows nothing of it.
func TestPlugins(t *testing.T) {
	tests := map[string]struct {
		objects map[Object]string
		want    string
	}{
		"Flannel": {map[Object]string{configMap("kube-flannel", "kube-flannel-cfg"): `{"data":{"net-conf.json":"{\"Network\":\"10.244.0.0/16\",\"Backend\":{\"Type\":\"vxlan\",\"VNI\":4096}}"}}`},
			"Network=10.244.0.0/16 Type=vxlan VNI=4096"},
		"Calico": {map[Object]string{
			calicoPools: `{"items":[{"metadata":{"name":"p"},"spec":{"cidr":"10.0.0.0/16","ipipMode":"Never","vxlanMode":"CrossSubnet","natOutgoing":true}}]}`,
			calicoFelix: `{"items":[{"metadata":{"name":"default"},"spec":{"bpfEnabled":false,"vxlanMTU":1450}}]}`},
			"cidr=10.0.0.0/16 ipipMode=Never vxlanMode=CrossSubnet natOutgoing=true bpfEnabled=false vxlanMTU=1450"},
		"Cilium": {map[Object]string{ciliumConfig: `{"data":{"routing-mode":"native","kube-proxy-replacement":"true","cluster-name":"x"}}`},
			"routing-mode=native kube-proxy-replacement=true"},
		"Kube-OVN": {map[Object]string{
			kubeOVNSubnets:    `{"items":[{"metadata":{"name":"ovn-default"},"spec":{"cidrBlock":"10.16.0.0/16","natOutgoing":true}}]}`,
			kubeOVNController: `{"spec":{"template":{"spec":{"containers":[{"command":["x"],"args":["--network-type=geneve","--enable-lb=false","--v=3"]}]}}}}`},
			"network-type=geneve enable-lb=false cidrBlock=10.16.0.0/16 natOutgoing=true"},
		"Antrea": {map[Object]string{antreaConfig: `{"data":{"antrea-agent.conf":"trafficEncapMode: noEncap\n# tunnelType: geneve\ndefaultMTU: 0\nantreaProxy:\n  proxyAll: true\n"}}`},
			"trafficEncapMode=noEncap defaultMTU=0 proxyAll=true"},
		"OVN-Kubernetes": {map[Object]string{openshiftConfig: `{"data":{"ovnkube.conf":"[default]\nmtu=\"1400\"\nencap-port=6081\n[gateway]\nmode = shared\nnodeport=true\n"}}`},
			"mtu=1400 encap-port=6081 mode=shared"},
		"kube-router": {map[Object]string{
			kubeRouterConfig: `{"data":{"cni-conf.json":"{\"plugins\":[{\"type\":\"bridge\",\"bridge\":\"kube-bridge\",\"mtu\":1480}]}"}}`,
			kubeRouterAgent:  `{"spec":{"template":{"spec":{"containers":[{"args":["--run-service-proxy=true","--enable-overlay"]}]}}}}`},
			"run-service-proxy=true enable-overlay=true bridge=kube-bridge mtu=1480"},
		"Weave Net": {map[Object]string{weaveAgent: `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"WEAVE_MTU","value":"1376"},{"name":"WEAVE_PASSWORD","valueFrom":{}}]}]}}}}`},
			"WEAVE_MTU=1376"},
		"kube-proxy": {map[Object]string{proxyConfig: `{"data":{"config.conf":"kind: KubeProxyConfiguration\nmode: nftables\nconntrack:\n  maxPerCore: 1000\n"}}`},
			"mode=nftables maxPerCore=1000"},
	}
	for _, p := range append([]Plugin{KubeProxy}, Table...) {
		c, known := tests[p.Name]
		if !known {
			t.Errorf("%s has no test", p.Name)
			continue
		}
		found := APIObjects{}
		for o, text := range c.objects {
			var object map[string]any
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			found[o] = object
		}
		var got []string
		for _, s := range p.Settings(found) {
			got = append(got, fmt.Sprintf("%s=%s", s.Name, s.Value))
			if !slices.ContainsFunc(p.Objects, func(o Object) bool { return strings.HasPrefix(s.From, o.String()) }) {
				t.Errorf("%s: %s is from %s, which nobody reads", p.Name, s.Name, s.From)
			}
		}
		if strings.Join(got, " ") != c.want || !p.Shows(found) {
			t.Errorf("%s: %s, want %s", p.Name, strings.Join(got, " "), c.want)
		}
		if none := p.Settings(APIObjects{}); len(none) > 0 || p.Shows(APIObjects{}) {
			t.Errorf("%s shows in an empty cluster: %v", p.Name, none)
		}
		if empty := (APIObjects{calicoPools: {"items": []any{}}}); p.Shows(empty) {
			t.Errorf("%s shows in a cluster with an empty list", p.Name)
		}
	}
}

// A file of the folder that is no plugin of the table is one of these.
func TestTable(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	plugins := 0
	for _, f := range files {
		if name := f.Name(); !strings.HasSuffix(name, "_test.go") && name != "cni.go" && name != "kubeproxy.go" {
			plugins++
		}
	}
	if plugins != len(Table) {
		t.Errorf("%d files, %d lines in the table", plugins, len(Table))
	}
	for device, plugin := range map[string]string{"flannel.1": "Flannel", "vxlan.calico": "Calico", "cilium_vxlan": "Cilium", "antrea-gw0": "Antrea", "kube-ipvs0": "", "eth0": "", "cni": ""} {
		made := ""
		for _, p := range Table {
			if p.Makes(device) {
				made += p.Name
			}
		}
		if made != plugin {
			t.Errorf("%s is of %q, want %q", device, made, plugin)
		}
	}
}
