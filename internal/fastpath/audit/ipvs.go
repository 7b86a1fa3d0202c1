package audit

import (
	"bytes"
	"io"
	"os"
)

const (
	// ipvsServices lists the services of IPVS in the calling thread's namespace. Without IPVS there is no such file.
	ipvsServices = "/proc/thread-self/net/ip_vs"
	// kubeIPVS are settings of the device to which kube-proxy, in its mode IPVS, gives the addresses of all Services.
	kubeIPVS = "/proc/sys/net/ipv4/conf/kube-ipvs0"
)

// HasIPVS reports whether IPVS leads packets of the calling thread's namespace to servers, or is about to, as where
// kube-proxy has its device for that.
func HasIPVS() bool {
	if _, err := os.Stat(kubeIPVS); err == nil {
		return true
	}
	list, err := os.Open(ipvsServices)
	if err != nil {
		return false
	}
	defer list.Close()
	return listsService(list)
}

// ipvsHead is how many lines of the list of services are its head, and ipvsRead what is read of it: there may be
// thousands of services.
const ipvsHead, ipvsRead = 3, 1024

// listsService tells whether a list of services has any.
func listsService(list io.Reader) bool {
	begin, _ := io.ReadAll(io.LimitReader(list, ipvsRead)) // of one that cannot be read, there are none
	return bytes.Count(begin, []byte("\n")) > ipvsHead
}
