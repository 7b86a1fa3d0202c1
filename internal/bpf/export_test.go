package bpf

// Slot is where cores keep a copy of a flow; src/known.h reckons it.
func Slot(k FlowKey) uint64 { return mix(k) >> 53 }

// NewVXLANOf loads the fast path of an overlay whose table has room for so many flows.
func NewVXLANOf(flows uint32, port uint16) (*Fast, error) {
	spec, err := loadVxlan()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["port"].Set(swap(port)); err != nil {
		return nil, err
	}
	spec.Maps["flows"].MaxEntries = flows
	return load(spec, Options{})
}
