#!/usr/bin/env bash
# Packs the images of a cluster, under the names that its kubeadm asks for, from binaries that were built before.
# Usage: images.sh INTO VERSION REPOSITORY ROOTFS FOLDER...; binaries are looked for in each FOLDER.
set -euo pipefail
into=$1 version=$2 repository=$3 rootfs=$4
shift 4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

binary() {
  local folder
  for folder in "${folders[@]}"; do
    if [ -x "$folder/$1" ]; then
      echo "$folder/$1"
      return
    fi
  done
  echo "$1 is in none of: ${folders[*]}" >&2
  return 1
}

# kube-proxy calls these; with them go their libraries and extensions, as the nodes have them.
tools_of_proxy() {
  local folder=$1 tool file
  local files=(/usr/sbin/xtables-nft-multi /usr/sbin/conntrack /usr/sbin/nft)
  while read -r file; do files+=("${file#"$rootfs"}"); done < <(find "$rootfs"/usr/lib/*/xtables -name '*.so')
  while read -r file; do files+=("$file"); done < <(
    for file in "${files[@]}"; do chroot "$rootfs" ldd "$file"; done | grep -o '/[^ ]*' | sort -u
  )
  for file in "${files[@]}"; do
    mkdir -p "$folder$(dirname "$file")"
    cp --dereference "$rootfs$file" "$folder$file"
  done
  for tool in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$folder/usr/sbin/$tool"
  done
}

folders=("$@")
mkdir -p "$into"
"$(binary kubeadm)" config images list --kubernetes-version "v$version" --image-repository "$repository" >"$work/names" 2>"$work/complaints" ||
  { cat "$work/complaints" >&2; exit 1; }
while read -r name; do
  program=${name##*/}
  program=${program%:*}
  folder=$work/$program
  mkdir -p "$folder/usr/local/bin" "$folder/etc" "$folder/tmp"
  cp "$(binary "$program")" "$folder/usr/local/bin/$program"
  case $program in
    kube-proxy) tools_of_proxy "$folder" ;;
    # containerd is told of it before it is known which kubeadm comes.
    pause) name=$name,$repository/pause:testbed ;;
  esac
  "$here/image.sh" "$into/$program.tar" "$name" "$folder" "/usr/local/bin/$program"
  rm -rf "$folder"
done <"$work/names"
