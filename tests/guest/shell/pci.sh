# Uses PCI drives that the machine emulates over NBD.
for drive in nvme0n1 nvme1n1; do
    wait_for /dev/$drive
    of_queue $drive
    use /dev/$drive
    zero /dev/$drive
done
