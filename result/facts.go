package result

// Facts describe one machine at the start of a run: what a reader needs to
// judge the figures, and to refuse a comparison between unlike machines.
type Facts struct {
	Machine    string `json:"machine"`
	Kernel     string `json:"kernel"` // uname -r
	Arch       string `json:"arch"`
	OS         string `json:"os"` // PRETTY_NAME of os-release
	CPUModel   string `json:"cpu_model"`
	CPUs       int    `json:"cpus"`
	Hypervisor string `json:"hypervisor,omitempty"`
	// Emulated: software carries out what the CPU is told. How long a thing
	// takes then says nothing of any real machine; only what is measured beside
	// it on this one may be compared with it.
	Emulated       bool              `json:"emulated,omitempty"`
	ClockSource    string            `json:"clock_source"`
	ClockAhead     int64             `json:"clock_ahead,omitempty"` // ns, of the clock of who runs the comparison; real machines only
	Governor       string            `json:"governor,omitempty"`
	Congestion     string            `json:"congestion_control"` // of new sockets in the machine's namespace
	Memory         int64             `json:"memory"`             // bytes
	BootID         string            `json:"boot_id"`
	Devices        []Device          `json:"devices,omitempty"`  // of the machine's namespace and of its pods
	Sysctls        map[string]string `json:"sysctls,omitempty"`  // those that matter for a data path
	Versions       map[string]string `json:"versions,omitempty"` // venturi, go, and tools that took part
	NetfilterRules int               `json:"netfilter_rules"`
	WrappedRules   int               `json:"netfilter_rules_wrapped,omitempty"` // of these, such as call extensions of iptables
	RulesHidden    bool              `json:"netfilter_rules_hidden,omitempty"`  // they could not be read: 0 says nothing
	Conntrack      bool              `json:"conntrack"`                         // connection tracking active in the machine's namespace
}

// SameMachine tells whether both are of one real machine, as two machines of a lab are.
func (f *Facts) SameMachine(o *Facts) bool {
	return f.BootID == o.BootID && f.Kernel == o.Kernel && f.CPUModel == o.CPUModel
}

// Device is a network device as the run found it.
type Device struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Kind      string          `json:"kind"` // veth, vxlan, bridge, ...
	MTU       int             `json:"mtu"`
	Qdisc     string          `json:"qdisc"`
	Features  map[string]bool `json:"features,omitempty"` // ethtool -k names, those that matter
}
