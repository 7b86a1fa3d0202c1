package cluster

import (
	"context"
	"strings"
)

// object is one object of the API.
type object map[string]any

// writeObjects makes what kubeadm and Flannel's manifest would have made, so that whoever
// asks the cluster how it is set up reads what users' clusters say.
func (k *keeper) writeObjects(ctx context.Context) error {
	fill := strings.NewReplacer("{{.ProxyMode}}", k.ProxyMode, "{{.Backend}}", k.Backend, "{{.Name}}", "", "{{.ProxyUser}}", "/var/lib/kube-proxy/kubeconfig.conf").Replace
	type addressed struct {
		path   string
		object object
	}
	objects := []addressed{{"/api/v1/namespaces/kube-system/configmaps", configMap("kube-proxy", "config.conf", fill(kubeProxyConfig))}}
	if k.Backend != calicoBackend {
		objects = append(objects, addressed{"/api/v1/namespaces", object{"metadata": object{"name": "kube-flannel"}}},
			addressed{"/api/v1/namespaces/kube-flannel/configmaps", configMap("kube-flannel-cfg", "net-conf.json", fill(flannelConfig))})
	}
	for _, o := range objects {
		if err := k.api.create(ctx, o.path, o.object); err != nil {
			return err
		}
	}
	return nil
}

func configMap(name, key, text string) object {
	return object{"metadata": object{"name": name}, "data": object{key: text}}
}
