#!/bin/sh
# Make and use the image of a package on a bare root: image.sh FOLDER ROOT CONTAINERFILE PACKAGES
set -eu
engine="buildah --root $1/store --runroot $1/run --storage-driver vfs"
base=$($engine from scratch)
cp -a "$2/." "$($engine mount "$base")"
$engine commit --quiet --rm "$base" localhost/base >/dev/null
$engine bud --quiet --pull-never --build-arg BASE=localhost/base --build-arg TOOLS= --build-arg PACKAGE=ioassay_*.deb \
    --tag localhost/ioassay --file "$3" "$4" >/dev/null
used=$($engine from --pull-never localhost/ioassay)
$engine run "$used" -- ioassay --version
$engine run --user 1000 "$used" -- ioassay plan quick --json >"$1/plan.json"
$engine inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Volumes}}' "$used"
