#!/bin/sh
# One node of Slurm and a command on it: unshare --net --mount sh slurm_node.sh SLURM FOLDER COMMAND…
# In namespaces of its own: slurmctld listens on all addresses, and slurmd's helper has to be in /usr/sbin.
set -eu
slurm=$1 folder=$2
shift 2
# Slurm resolves addresses only on a host that has one which is not loopback.
ip link set lo up
ip addr add 10.9.9.1/32 dev lo
mount -t overlay overlay -o "lowerdir=$slurm/usr/sbin:/usr/sbin" /usr/sbin
export LD_LIBRARY_PATH="$slurm/usr/lib/x86_64-linux-gnu:$slurm/usr/lib/x86_64-linux-gnu/slurm-wlm"
export PATH="$slurm/usr/bin:$PATH" SLURM_CONF="$folder/slurm.conf"
mkdir -p "$folder/state" "$folder/spool"
chmod 700 "$folder"
host=$(hostname -s)
cat > "$SLURM_CONF" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock
CryptoType=crypto/munge
PluginDir=$slurm/usr/lib/x86_64-linux-gnu/slurm-wlm
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=2000 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
"$slurm/usr/sbin/mungekey" --create --keyfile="$folder/munge.key"
"$slurm/usr/sbin/munged" --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.sock" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" &
munged=$!
"$slurm/usr/sbin/slurmctld-wlm" -D > "$folder/slurmctld.log" 2>&1 &
slurmctld=$!
"$slurm/usr/sbin/slurmd-wlm" -D -N "$host" > "$folder/slurmd.log" 2>&1 &
slurmd=$!
trap 'kill $slurmd $slurmctld $munged' EXIT
tries=0
until sinfo --noheader 2> /dev/null | grep -q idle; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { cat "$folder"/*.log >&2; exit 1; }
    sleep 0.5
done
"$@"
tries=0
while [ -n "$(squeue --noheader)" ] && [ $tries -lt 120 ]; do  # jobs that were cancelled complete
    tries=$((tries + 1))
    sleep 0.5
done
squeue --noheader > "$folder/left"
