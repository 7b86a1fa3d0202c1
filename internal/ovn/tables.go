package ovn

import "github.com/ovn-org/libovsdb/model"

// Tables of the northbound database.
const (
	tableGlobal = "NB_Global"
	tableSwitch = "Logical_Switch"
	tablePort   = "Logical_Switch_Port"
)

// Rows of the tables, with the columns that are written here. A pointer is a
// column that may be empty.

type nbGlobal struct {
	UUID    string            `ovsdb:"_uuid"`
	Options map[string]string `ovsdb:"options"`
}

type logicalSwitch struct {
	UUID      string            `ovsdb:"_uuid"`
	Name      string            `ovsdb:"name"`
	Ports     []string          `ovsdb:"ports"`
	Balancers []string          `ovsdb:"load_balancer"`
	Config    map[string]string `ovsdb:"other_config"`
}

type logicalSwitchPort struct {
	UUID      string            `ovsdb:"_uuid"`
	Name      string            `ovsdb:"name"`
	Type      string            `ovsdb:"type"`
	Addresses []string          `ovsdb:"addresses"`
	Options   map[string]string `ovsdb:"options"`
	Tag       *int              `ovsdb:"tag"`
	Up        *bool             `ovsdb:"up"`
}

type logicalRouter struct {
	UUID  string   `ovsdb:"_uuid"`
	Name  string   `ovsdb:"name"`
	Ports []string `ovsdb:"ports"`
}

type logicalRouterPort struct {
	UUID     string   `ovsdb:"_uuid"`
	Name     string   `ovsdb:"name"`
	MAC      string   `ovsdb:"mac"`
	Networks []string `ovsdb:"networks"`
}

type loadBalancer struct {
	UUID     string            `ovsdb:"_uuid"`
	Name     string            `ovsdb:"name"`
	Protocol *string           `ovsdb:"protocol"`
	VIPs     map[string]string `ovsdb:"vips"`
	Options  map[string]string `ovsdb:"options"`
}

func tables() (model.ClientDBModel, error) {
	return model.NewClientDBModel("OVN_Northbound", map[string]model.Model{
		tableGlobal:           &nbGlobal{},
		tableSwitch:           &logicalSwitch{},
		tablePort:             &logicalSwitchPort{},
		"Logical_Router":      &logicalRouter{},
		"Logical_Router_Port": &logicalRouterPort{},
		"Load_Balancer":       &loadBalancer{},
	})
}
