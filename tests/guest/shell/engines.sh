# The kernel is connected by `text`, as nvme_host.py does it, and fio reads through each of its engines: those of the
# study access-paths. Tells what nvme_host.py looks for in /sys, and disconnects as that does.
for turn in 1 2 3; do # Linux gives up when two SYN packets have no answer in 3 s, which a busy host may take
    echo "$text" >/dev/nvme-fabrics && break
done
wait_for /dev/nvme0n1
wait_for /dev/ng0n1
for file in subsysnqn transport address; do
    echo "GUEST: $file $(cat /sys/class/nvme/nvme0/$file)"
done
for file in subsysnqn serial; do
    echo "GUEST: of the disk $file $(cat /sys/block/nvme0n1/device/$file)"
done
echo "GUEST: bytes $(($(cat /sys/block/nvme0n1/size) * 512))"
echo "GUEST: queues $(cat /sys/class/nvme/nvme0/queue_count)"
read_by() { # name, options of fio
    local name=$1
    shift
    fio --name=j --thread --direct=1 --rw=randread --bs=4k --size=8m --io_size=256k --output=/tmp/said "$@" 2>/tmp/why &&
        echo "GUEST: read by $name" || cat /tmp/why /tmp/said
}
disk=--filename=/dev/nvme0n1
read_by psync $disk --ioengine=psync
read_by libaio $disk --ioengine=libaio --iodepth=4
read_by io_uring $disk --ioengine=io_uring --iodepth=4
read_by "io_uring fixed" $disk --ioengine=io_uring --iodepth=4 --fixedbufs=1 --registerfiles=1
read_by "io_uring SQPOLL" $disk --ioengine=io_uring --iodepth=4 --sqthread_poll=1
read_by "io_uring polled" $disk --ioengine=io_uring --iodepth=4 --hipri=1
read_by "io_uring passthrough" --filename=/dev/ng0n1 --ioengine=io_uring_cmd --cmd_type=nvme --iodepth=4 --direct=0
echo 1 >/sys/class/nvme/nvme0/delete_controller
for turn in $(seq 600); do
    [ -e /sys/class/nvme/nvme0 ] || break
    sleep 0.1
done
[ -e /sys/class/nvme/nvme0 ] || echo "GUEST: disconnected"
