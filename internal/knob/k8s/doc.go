// Package k8s holds the knobs of a cluster's network: of kube-proxy, Calico, Cilium and
// Kube-OVN. Each is a setting in a manifest, a file that somebody will apply to the
// cluster: it is edited in place, and no cluster is asked or told anything.
package k8s
