#!/bin/sh
set -eu
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
  # A plain remount is refused as busy: only this mount point's own flag may change.
  mount -o remount,bind,rw /sys/fs/cgroup
  for controller in /sys/fs/cgroup/*; do
    [ -L "$controller" ] || mount -o remount,bind,rw "$controller"
  done
fi
mkdir -p /run/shipshape
for setting in kernel/panic=10 kernel/panic_on_oops=1 vm/overcommit_memory=1; do
  file=/run/shipshape/$(echo "${setting%=*}" | tr / .)
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
