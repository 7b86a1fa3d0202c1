package k8s

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// manifestAt puts a text into a file of its own.
func manifestAt(t *testing.T, text string) (knob.Machine, knob.Target) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return knob.Machine{Settings: setting.NewSettings(setting.Backends("")...)}, knob.Target{File: file}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// turnKnob sets a knob in a file, and gives what the file was and is.
func turnKnob(t *testing.T, m knob.Machine, target knob.Target, name, value string) (old, now string) {
	t.Helper()
	e := findKnob(t, name)
	writes, err := e.Plan(m, target, value)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, value, err)
	}
	if len(writes) != 1 {
		t.Fatalf("%s=%s: %d writes, want the file alone", name, value, len(writes))
	}
	was, err := m.Settings.Read(writes[0].Setting)
	if err == nil {
		err = m.Settings.Write(writes[0].Setting, writes[0].Value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return was.String(), writes[0].Value.String()
}

func findKnob(t *testing.T, name string) knob.Entry {
	t.Helper()
	for _, e := range Knobs() {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no knob %s", name)
	return knob.Entry{}
}

// changedLines shows the lines that two texts differ in.
func changedLines(old, now string) string {
	a, b := strings.SplitAfter(old, "\n"), strings.SplitAfter(now, "\n")
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			a, b = a[1:], b[1:]
		case len(a) > 0 && !slices.Contains(b, a[0]):
			out.WriteString("-" + a[0])
			a = a[1:]
		case len(b) > 0:
			out.WriteString("+" + b[0])
			b = b[1:]
		default:
			out.WriteString("-" + a[0])
			a = a[1:]
		}
	}
	return out.String()
}

var manifestTurns = []struct {
	file, knob, value string
	before, after     string // what the knob reads; after empty: value
	diff              string
}{
	{"cilium.yaml", "cil.native", "native,cidr=10.244.0.0/16", "tunnel", "native",
		"-  routing-mode: \"tunnel\"\n+  routing-mode: \"native\"\n-  auto-direct-node-routes: 'false'\n+  auto-direct-node-routes: 'true'\n+  ipv4-native-routing-cidr: \"10.244.0.0/16\"\n"},
	{"cilium.yaml", "cil.kpr", "on", "off", "",
		"-  kube-proxy-replacement: \"false\"   # kube-proxy stays for now\n+  kube-proxy-replacement: \"true\"   # kube-proxy stays for now\n"},
	{"cilium.yaml", "cil.hubble", "default", "on", "", "-  enable-hubble: \"true\"\n"},
	{"cilium.yaml", "cil.bwm", "on", "default", "", "+  enable-bandwidth-manager: \"true\"\n"},
	{"cilium.yaml", "cil.monitor", "10s", "5s", "", "-  monitor-aggregation-interval: \"5s\"\n+  monitor-aggregation-interval: \"10s\"\n"},
	{"cilium.yaml", "cil.netkit", "netkit", "default", "", "+  datapath-mode: \"netkit\"\n"},
	{"cilium-1.12.yaml", "cil.native", "native", "tunnel", "", "-  tunnel: vxlan\n+  tunnel: disabled\n+  auto-direct-node-routes: \"true\"\n"},
	{"cilium-1.12.yaml", "cil.kpr", "off", "on", "", "-  kube-proxy-replacement: \"strict\"\n+  kube-proxy-replacement: \"disabled\"\n"},
	{"cilium-1.12.yaml", "cil.hostroute", "on", "off", "", "-  enable-host-legacy-routing: \"true\"\n+  enable-host-legacy-routing: \"false\"\n"},
	{"cilium-1.12.yaml", "cil.hostroute", "default", "off", "", "-  enable-host-legacy-routing: \"true\"\n"},
	{"cilium-values.yaml", "cil.hostroute", "on", "default", "", "+    hostLegacyRouting: false\n"},
	{"cilium-values.yaml", "cil.bwm", "on", "default", "", "+bandwidthManager:\n+  enabled: true\n"},
	{"cilium-values.yaml", "cil.hubble", "off", "on", "", "-hubble: {enabled: true, relay: {enabled: false}}\n+hubble: {enabled: false, relay: {enabled: false}}\n"},
	{"cilium-values.yaml", "cil.native", "native,cidr=10.0.0.0/8,direct=off", "tunnel", "native",
		"-routingMode: tunnel\n+routingMode: native\n+ipv4NativeRoutingCIDR: 10.0.0.0/8\n+autoDirectNodeRoutes: false\n"},
	{"cilium-values.yaml", "cil.maps", "0.08", "default", "", "+    mapDynamicSizeRatio: 0.08\n"},
	{"cilium-node.yaml", "cil.hostroute", "on", "default", "", "+    enable-host-legacy-routing: \"false\"\n"},
	{"kube-ovn.yaml", "kubeovn.lb", "off", "on", "", "-          - --enable-lb=true\n+          - --enable-lb=false\n"},
	{"kube-ovn.yaml", "kubeovn.np", "default", "on", "", "-          - --enable-np=true   # policies\n"},
	{"kube-ovn.yaml", "kubeovn.lb_local", "on", "default", "", "+          - --enable-ovn-lb-prefer-local=true\n"},
	{"kube-ovn.yaml", "kubeovn.ct_skip", "10.16.0.0/16,fd00:10:16::/112", "default", "", "+          - --skip-conntrack-dst-cidrs=10.16.0.0/16,fd00:10:16::/112\n"},
	{"kube-ovn.yaml", "kubeovn.mirror", "off", "on", "",
		"-        args: [--enable-mirror, \"--encap-checksum=true\", --network-type=geneve]\n+        args: [--enable-mirror=false, \"--encap-checksum=true\", --network-type=geneve]\n"},
	{"kube-ovn.yaml", "kubeovn.encap_csum", "default", "on", "",
		"-        args: [--enable-mirror, \"--encap-checksum=true\", --network-type=geneve]\n+        args: [--enable-mirror, --network-type=geneve]\n"},
	{"kube-ovn.yaml", "kubeovn.encap", "vxlan", "geneve", "",
		"-        args: [--enable-mirror, \"--encap-checksum=true\", --network-type=geneve]\n+        args: [--enable-mirror, \"--encap-checksum=true\", --network-type=vxlan]\n-              value: \"geneve\"\n+              value: \"vxlan\"\n"},
	{"calico.yaml", "cal.encap", "crosssubnet", "ipip-always", "ipip-crosssubnet", "-  ipipMode: Always\n+  ipipMode: CrossSubnet\n"},
	{"calico.yaml", "cal.encap", "never", "ipip-always", "", "-  ipipMode: Always\n+  ipipMode: Never\n"},
	{"calico.yaml", "cal.encap", "vxlan-crosssubnet", "ipip-always", "", "-  ipipMode: Always\n+  ipipMode: Never\n-  vxlanMode: Never\n+  vxlanMode: CrossSubnet\n"},
	{"calico.yaml", "cal.nat", "off", "on", "", "-  natOutgoing: true\n+  natOutgoing: false\n"},
	{"calico.yaml", "cal.bpf", "on", "default", "", "+  bpfEnabled: true\n"},
	{"calico.yaml", "cal.mtu", "8950", "default", "", "+  vxlanMTU: 8950\n"},
	{"calico.yaml", "cal.flowtable", "on", "default", "", "+  nftablesFlowTableOffload: All\n"},
	{"calico.yaml", "cal.tnl_csum", "off", "default", "",
		"-  featureDetectOverride: \"SNATFullyRandom=false\"\n+  featureDetectOverride: \"SNATFullyRandom=false,ChecksumOffloadBroken=true\"\n"},
	{"kube-proxy.yaml", "kp.mode", "nftables", "default", "", "-    mode: \"\"\n+    mode: \"nftables\"\n"},
	{"kube-proxy.yaml", "kp.mode", "default", "default", "", "-    mode: \"\"\n"},
	{"list.json", "cil.hubble", "off", "on", "", "-                \"enable-hubble\": \"true\",\n+                \"enable-hubble\": \"false\",\n"},
	{"list.json", "cil.masq", "on", "default", "", "+                \"enable-bpf-masquerade\": \"true\",\n"},
	{"list.json", "cil.kpr", "default", "on", "", "-                \"enable-hubble\": \"true\",\n-                \"kube-proxy-replacement\": \"true\"\n+                \"enable-hubble\": \"true\"\n"},
	{"list.json", "kp.mode", "ipvs", "default", "",
		`-                "config.conf": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: \"\"\nfoo: <b>\n"` + "\n" +
			`+                "config.conf": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: \"ipvs\"\nfoo: <b>\n"` + "\n"},
	{"list.json", "cal.bpf", "on", "default", "", "-            \"spec\": {}\n+            \"spec\": {bpfEnabled: true}\n"},
}

func TestManifestKnobs(t *testing.T) {
	for _, tt := range manifestTurns {
		for _, end := range []string{"\n", "\r\n"} {
			t.Run(tt.file+" "+tt.knob+"="+tt.value, func(t *testing.T) {
				text := strings.ReplaceAll(fixture(t, tt.file), "\n", end)
				m, target := manifestAt(t, text)
				e := findKnob(t, tt.knob)
				if r, err := e.Get(m, target); err != nil || r.Value != tt.before {
					t.Errorf("reads %q, %v; want %q", r.Value, err, tt.before)
				}
				old, now := turnKnob(t, m, target, tt.knob, tt.value)
				if diff := changedLines(old, now); diff != strings.ReplaceAll(tt.diff, "\n", end) {
					t.Errorf("changed:\n%s\nwant:\n%s", diff, tt.diff)
				}
				after := tt.after
				if after == "" {
					after = tt.value
				}
				if r, err := e.Get(m, target); err != nil || r.Value != after {
					t.Errorf("reads %q, %v afterwards; want %q", r.Value, err, after)
				}
				if again, err := e.Plan(m, target, tt.value); err != nil || again[0].Value.String() != now {
					t.Errorf("a second time changes more: %v\n%s", err, changedLines(now, again[0].Value.String()))
				}
			})
		}
	}
}

func TestManifestErrors(t *testing.T) {
	cilium := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cilium-config}\ndata:\n"
	tests := []struct {
		name, text, knob, value string
		code                    int
		why                     string
	}{
		{"no such object", fixture(t, "calico.yaml"), "cil.hubble", "off", verr.Missing, "no such object; it has IPPool default-ipv4-ippool, FelixConfiguration default"},
		{"two of them", cilium + "  a: b\n---\n" + cilium + "  a: b\n", "cil.hubble", "off", verr.Usage, "the file has 2 of them, at lines 1, 7"},
		{"not YAML", "a: b: c\n", "cil.hubble", "off", verr.Usage, "not YAML"},
		{"not text", "\x00\xff", "cil.hubble", "off", verr.Usage, "not text"},
		{"old line ends", "a: b\rc: d\r", "cil.hubble", "off", verr.Usage, "line ends"},
		{"template", cilium + "  enable-hubble: {{ .Values.hubble }}\n", "cil.hubble", "off", verr.Usage, "template of Helm"},
		{"template with blocks", cilium + "{{- if .Values.x }}\n  enable-hubble: \"true\"\n{{- end }}\n", "cil.hubble", "off", verr.Usage, "template of Helm"},
		{"value is templated", cilium + "  enable-hubble: \"{{ .Values.hubble }}\"\n", "cil.hubble", "off", verr.Failed, "template"},
		{"no such value", cilium + "  a: b\n", "cil.hubble", "perhaps", verr.Usage, "want on, off, or default"},
		{"no CIDR", cilium + "  a: b\n", "cil.native", "native", verr.Usage, "ipv4-native-routing-cidr"},
		{"no network", fixture(t, "kube-ovn.yaml"), "kubeovn.ct_skip", "10.0.0.1", verr.Usage, "want networks"},
		{"shared by an anchor", "kind: ConfigMap\nmetadata: {name: cilium-config}\ndata:\n  enable-hubble: &on \"true\"\n  debug: *on\n", "cil.hubble", "off", verr.Failed, "other places refer to it"},
		{"in a shared mapping", "kind: ConfigMap\nmetadata: {name: cilium-config}\ndata: &d\n  enable-hubble: \"true\"\nbinaryData: *d\n", "cil.hubble", "off", verr.Failed, "other places refer to it"},
		{"an alias for a mapping", "kind: ConfigMap\nmetadata: {name: cilium-config}\nx: &d\n  enable-hubble: \"true\"\ndata: *d\n", "cil.hubble", "off", verr.Failed, "stands elsewhere"},
		{"merged", "kind: ConfigMap\nmetadata: {name: cilium-config}\nx: &d\n  enable-hubble: \"true\"\ndata:\n  <<: *d\n", "cil.hubble", "default", verr.Failed, "merged from elsewhere"},
		{"a block", cilium + "  enable-hubble: |-\n    true\n", "cil.hubble", "off", verr.Failed, "only a person"},
		{"twice", strings.Replace(fixture(t, "kube-ovn.yaml"), "--enable-np=true", "--enable-lb=false", 1), "kubeovn.lb", "off", verr.Failed, "given twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, target := manifestAt(t, tt.text)
			e := findKnob(t, tt.knob)
			_, err := e.Plan(m, target, tt.value)
			if err == nil || verr.Code(err) != tt.code || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %v, code %d; want code %d and %q", err, verr.Code(err), tt.code, tt.why)
			}
		})
	}
	e := findKnob(t, "cil.hubble")
	m, target := manifestAt(t, "")
	if _, err := e.Get(m, knob.Target{}); verr.Code(err) != verr.Usage {
		t.Errorf("no file is named: %v", err)
	}
	if _, err := e.Get(m, knob.Target{File: target.File + "x"}); verr.Code(err) != verr.Usage {
		t.Errorf("no such file: %v", err)
	}
}

// What a setting comes to is not always what it says.
func TestManifestEffects(t *testing.T) {
	config := func(lines ...string) string {
		return "kind: ConfigMap\nmetadata: {name: cilium-config}\ndata:\n  " + strings.Join(lines, "\n  ") + "\n"
	}
	const (
		route, legacy = `enable-host-legacy-routing: "false"`, `enable-host-legacy-routing: "true"`
		kpr, masq     = `kube-proxy-replacement: "true"`, `enable-bpf-masquerade: "true"`
	)
	tests := []struct {
		text, knob, value, effective, note string
	}{
		{config(route, kpr, masq), "cil.hostroute", "on", "", "Host Routing: BPF"},
		{config(legacy, kpr, masq), "cil.hostroute", "off", "", "takes? the host's stack"},
		{config(route, masq), "cil.hostroute", "on", "off", "kube-proxy-replacement"},
		{config(route, kpr), "cil.hostroute", "on", "off", "enable-bpf-masquerade"},
		{config(route, kpr, `enable-ipv4-masquerade: "false"`), "cil.hostroute", "on", "", "Host Routing: BPF"},
		{config(kpr), "cil.hostroute", "default", "", "enable-bpf-masquerade"},
		{fixture(t, "cilium-node.yaml") + "    " + route + "\n", "cil.hostroute", "on", "", "the file does not say"},
		{config(masq), "cil.masq", "on", "", "needs kube-proxy-replacement"},
		{config(`enable-bbr: "true"`), "cil.bbr", "on", "off", "bandwidth manager"},
		{config(`install-no-conntrack-iptables-rules: "true"`, `tunnel: disabled`, kpr, masq), "cil.noct", "on", "", "nothing more here"},
		{config(`install-no-conntrack-iptables-rules: "true"`, kpr), "cil.noct", "on", "", "refuse"},
		{strings.Replace(config(kpr), "cilium-config", "mine", 1), "cil.kpr", "on", "", "kube-proxy goes last"},
		{config(`kube-proxy-replacement: partial`), "cil.kpr", "partial", "", "only true and false"},
		{"kind: FelixConfiguration\nspec: {bpfExternalServiceMode: DSR}", "cal.bpf_dsr", "dsr", "", "does nothing while"},
		{"kind: FelixConfiguration\nspec: {bpfEnabled: true, nftablesFlowTableOffload: All}", "cal.flowtable", "on", "off", "eBPF datapath"},
		{strings.Replace(fixture(t, "kube-ovn.yaml"), "\"geneve\"", "stt", 1), "kubeovn.encap", "stt", "", "stt is gone"},
	}
	for _, tt := range tests {
		m, target := manifestAt(t, tt.text)
		e := findKnob(t, tt.knob)
		r, err := e.Get(m, target)
		note := strings.ReplaceAll(tt.note, "takes?", "take")
		if err != nil || r.Value != tt.value || r.Effective != tt.effective || !strings.Contains(r.Note, note) {
			t.Errorf("%s in %q: %+v, %v; want %q, %q, %q", tt.knob, tt.text, r, err, tt.value, tt.effective, note)
		}
	}
}

// Whatever was set, the old bytes bring the file back, and every value on the
// way is one that the file can be read with.
func TestManifestSetAndUndo(t *testing.T) {
	for _, e := range Knobs() {
		if e.Instead != "" {
			continue
		}
		turned := 0
		for _, name := range []string{"cilium.yaml", "cilium-1.12.yaml", "cilium-values.yaml", "cilium-node.yaml", "kube-ovn.yaml", "calico.yaml", "kube-proxy.yaml", "list.json"} {
			text := fixture(t, name)
			m, target := manifestAt(t, text)
			values, err := e.Knob.(knob.Ranger).Range(m, target)
			if verr.Code(err) == verr.Missing {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			s := setting.Setting{Backend: "file", Key: target.File}
			before, err := m.Settings.Read(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range values {
				if _, err := e.Plan(m, target, value); err != nil && strings.Contains(err.Error(), "ipv4-native-routing-cidr") {
					continue // has a test of its own
				}
				turnKnob(t, m, target, e.Name, value)
				turned++
			}
			if err := m.Settings.Write(s, before); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(target.File); err != nil || !bytes.Equal(now, []byte(text)) {
				t.Errorf("%s in %s: the old bytes are not back: %v", e.Name, name, err)
			}
		}
		if turned == 0 && e.Name != "kubeovn.ct_skip" && e.Name != "cal.mtu" {
			t.Errorf("%s: no fixture turns it", e.Name)
		}
	}
}

// TestValuesNameTheirKnob: an error about a value names the knob, and what it takes.
func TestValuesNameTheirKnob(t *testing.T) {
	m, on := manifestAt(t, "kind: ConfigMap\nmetadata:\n  name: cilium-config\ndata:\n  enable-hubble: \"true\"\n")
	for name, text := range map[string]string{"cil.hubble": "venturi knob ls cil.hubble", "cil.bbr": "it takes on, off"} {
		e := findKnob(t, name)
		_, err := e.Plan(m, on, "perhaps")
		if v := new(verr.Error); !errors.As(err, &v) || v.Code != verr.Usage || v.Summary != `cannot set `+name+` to "perhaps"` || !strings.Contains(v.Hint, text) {
			t.Errorf("error is %v, want %q in what to do", err, text)
		}
	}
}
