// The container that keeps a pod's namespaces: it sleeps, buries children that others left, and ends when told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// kubeadm tries whether pods run at all by asking for the version.
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		println("pause of the testbed")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			buried, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if buried <= 0 || err != nil {
				break
			}
		}
	}
}
