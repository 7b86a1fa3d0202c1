// Package cluster raises a real Kubernetes cluster on this machine, for tests: etcd, API
// server, controller manager and scheduler, and nodes that each run containerd, kubelet,
// kube-proxy and Flannel in namespaces of their own. In place of Flannel, pods can be wired as Calico
// wires them.
//
// Three kinds of processes, all of the program in clusterd/, make it up:
//
//   - The holder stays outside. It makes the cgroups and the state folder, starts the
//     keeper, and removes everything when it is told to or when whoever started it is gone.
//   - The keeper is the first process of a pid, mount and network namespace that holds all
//     of the cluster. It runs the control plane and forwards the API server's port, whose
//     socket it was handed, to the loopback of the machine. When it dies, the kernel ends
//     every process of the cluster and takes its mounts, links and namespaces along.
//   - A node is the first process of namespaces inside of these.
//
// So nothing has to be tidied up process by process, whatever is killed; what a killed
// holder leaves are empty cgroups and a folder, which the next [Hold] or [Down] removes.
package cluster
