#!/usr/bin/env bash
# Packs a folder as an image that `ctr images import` takes, with one layer.
# Usage: image.sh INTO NAMES FOLDER ENTRYPOINT. NAMES are those of the image, with commas between them.
set -euo pipefail
into=$1 names=$2 folder=$3 entrypoint=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --create --file "$work/layer.tar" --directory "$folder" --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name .
layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
cat >"$work/config.json" <<JSON
{
  "architecture": "amd64",
  "os": "linux",
  "config": {
    "Entrypoint": ["$entrypoint"],
    "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
  },
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}
}
JSON
printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "${names//,/\", \"}" >"$work/manifest.json"
tar --create --file "$work/image.tar" --directory "$work" manifest.json config.json layer.tar
mv "$work/image.tar" "$into"
