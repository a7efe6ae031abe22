#!/bin/sh
# Unpacks Debian's Slurm into a folder, for the test that runs it: setup/slurm.sh FOLDER
#
# Nothing is installed and nothing is started. A test runs slurmctld and slurmd from there, in network and mount namespaces
# of its own: IOASSAY_SLURM=FOLDER pytest tests/packs/hosts/test_cluster_commands.py
set -eu
folder=${1:?names the folder to make}
mkdir -p "$folder/packages/partial"
apt-get install -qq --yes --no-install-recommends --download-only -o Dir::Cache::archives="$(realpath "$folder/packages")" \
    slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
for package in "$folder"/packages/*.deb; do
    dpkg -x "$package" "$folder"
done
# slurmd looks for its helper by the name that Debian's alternatives would give it.
cp "$folder/usr/sbin/slurmstepd-wlm" "$folder/usr/sbin/slurmstepd"
