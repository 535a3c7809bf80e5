#!/bin/sh
# /etc/shipshape/number tells the node's number N: it is 10.200.0.(10+N), and its pods are 10.244.(N-1).0/24.
set -eu
number=$(cat /etc/shipshape/number)
ip link set lo up
ip link set host0 up
ip address replace "10.200.0.$((10 + number))/24" dev host0
ip route replace default via 10.200.0.1
for other in 1 2 3 4 5 6 7 8 9; do
  [ "$other" = "$number" ] || ip route replace "10.244.$((other - 1)).0/24" via "10.200.0.$((10 + other))"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
