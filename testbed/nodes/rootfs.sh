#!/usr/bin/env bash
# Makes the root file system that all nodes share: Debian with systemd, containerd and what a kubelet calls.
# Usage: rootfs.sh INTO. INTO must not be there; what is in it after a failure is of no use.
set -euo pipefail
into=$1

packages=(
  systemd systemd-sysv dbus kmod procps util-linux mount ca-certificates # an ordinary machine
  containerd runc containernetworking-plugins                            # what runs pods
  iproute2 iptables nftables conntrack ethtool socat                     # what kubelet, kubeadm, kube-proxy and faults call
)
list=$(IFS=,; echo "${packages[*]}")
debootstrap --variant=minbase --include="$list" bookworm "$into" >&2

# Every node makes an id of its own when it boots.
: >"$into/etc/machine-id"
rm -f "$into/etc/hostname" "$into/var/cache/apt/archives/"*.deb

# Timers of a machine that somebody keeps up to date, a console that nobody reads, and settings of a kernel that is not
# the node's own.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer console-getty.service systemd-sysctl.service systemd-networkd.service systemd-resolved.service; do
  ln -sf /dev/null "$into/etc/systemd/system/$unit"
done
# All but containerd are put beside this when a node is made (`rootfs/`), so that a change there costs no new root file system.
enable() {
  mkdir -p "$into/etc/systemd/system/$2.wants"
  ln -sf "$3/$1.service" "$into/etc/systemd/system/$2.wants/$1.service"
}
enable node-kernel sysinit.target /etc/systemd/system
enable node-network multi-user.target /etc/systemd/system
enable kubelet multi-user.target /etc/systemd/system
enable containerd multi-user.target /lib/systemd/system
