#!/usr/bin/env bash
# The first process of the namespaces in which nodes run: makes their network, runs a command there, and ends with it.
# When it ends, the kernel ends everything in its process namespace, and with that network and mounts are gone.
# Usage, in new namespaces of network, mounts and processes: apart.sh COMMAND...
set -euo pipefail
# nspawn notes its machines here; the host is to hear nothing of ours.
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
# No way leads out of this network.
ip link set lo up
ip link add br0 type bridge
ip address add 10.200.0.1/24 dev br0
ip link set br0 up
code=0
"$@" || code=$?
exit "$code"
