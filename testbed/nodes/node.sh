#!/usr/bin/env bash
# One node: a container of systemd-nspawn with an init, addresses and cgroups of its own, on the bridge of the network
# namespace that this is called in.
#
#   node.sh run FOLDER NAME ROOTFS SHARE   boots it, boots it again when it reboots, and ends when it is off
#   node.sh enter FOLDER COMMAND...        runs a command in it
#   node.sh off FOLDER                     switches it off in order
#   node.sh sweep                          removes cgroups that nodes left whose test was killed
#
# FOLDER/upper holds what the node has changed, and whatever was put there before it boots. SHARE is seen as /share.
set -euo pipefail

# Where this process is, in each hierarchy: a line for each, as a folder.
cgroups() {
  local id controllers path root
  while IFS=: read -r id controllers path; do
    root=/sys/fs/cgroup
    if [ "$id" != 0 ]; then
      root=$root/${controllers#name=}
    elif [ -d $root/unified ]; then
      root=$root/unified
    fi
    echo "$root${path%/}"
  done </proc/self/cgroup
}

# Goes into a cgroup of the node's own in each hierarchy: systemd in it and kubelet take that for the whole.
enter_cgroups() {
  local name=$1 group
  while read -r group; do
    mkdir -p "$group/shipshape-nodes/$name"
    if [ -e "$group/cpuset.cpus" ]; then
      local below
      for below in "$group/shipshape-nodes" "$group/shipshape-nodes/$name"; do
        cat "$below/../cpuset.cpus" >"$below/cpuset.cpus"
        cat "$below/../cpuset.mems" >"$below/cpuset.mems"
        echo 1 >"$below/cgroup.clone_children"
      done
    fi
    echo 0 >"$group/shipshape-nodes/$name/cgroup.procs"
  done < <(cgroups)
}

# Empty cgroups below a folder. kubelet waits seconds for each that an earlier boot left.
remove_below() {
  find "$1" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
}

boot() {
  local folder=$1 name=$2 rootfs=$3 share=$4 code
  enter_cgroups "$name"
  mkdir -p "$folder/upper" "$folder/work" "$folder/root" "$folder/containerd" "$folder/kubelet"
  mount -t overlay overlay -o "lowerdir=$rootfs,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
  while :; do
    cgroups | while read -r group; do remove_below "$group"; done
    # containerd cannot put its overlays on this one, hence folders of the host for it and for kubelet.
    systemd-nspawn --quiet --directory="$folder/root" --machine="$name" --boot --register=no --keep-unit \
      --network-bridge=br0 --capability=all --system-call-filter='@keyring bpf' --bind=/dev/kmsg \
      --bind="$folder/containerd:/var/lib/containerd" --bind="$folder/kubelet:/var/lib/kubelet" --bind-ro="$share:/share" \
      --link-journal=no --resolv-conf=off --timezone=off --console=read-only &
    echo $! >"$folder/nspawn.pid"
    code=0
    wait $! || code=$?
    rm -f "$folder/nspawn.pid"
    # It keeps our unit, so it cannot boot again by itself and says so.
    [ "$code" = 133 ] || exit "$code"
  done
}

# The init of the node, as a process of ours.
leader() {
  local nspawn
  nspawn=$(cat "$1/nspawn.pid" 2>/dev/null) || return 1
  pgrep --parent "$nspawn" | head -n 1 | grep .
}

command=$1
shift
case $command in
  run) boot "$@" ;;
  enter)
    init=$(leader "$1") || { echo "the node in $1 does not run" >&2; exit 125; }
    shift
    exec nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup \
      env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      KUBECONFIG=/etc/kubernetes/admin.conf "$@"
    ;;
  off)
    init=$(leader "$1") || exit 0
    kill -s RTMIN+4 "$init"
    ;;
  sweep)
    cgroups | while read -r group; do
      [ ! -d "$group/shipshape-nodes" ] || { remove_below "$group/shipshape-nodes"; rmdir "$group/shipshape-nodes" || true; }
    done
    ;;
  *)
    echo "node.sh does not know $command" >&2
    exit 2
    ;;
esac
