#!/bin/sh
# Run a trial in a bare root, which it sees through an overlay: bare_root.sh ROOT FOLDER PACKAGE TRIAL
set -eu
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev
mount -t tmpfs tmpfs run && mount -t tmpfs -o mode=1777 tmpfs tmp
cp "$3" tmp/package.deb && cp "$4" tmp/trial.sh
exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /tmp/trial.sh /tmp/package.deb
