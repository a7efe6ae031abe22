# Connects with no secret, with wrong ones and with the right ones, and uses the drive with these.
# Needs: port nqn secret controller wrong
find_drive() { # numbers of hosts that were refused may be taken still
    for turn in $(seq 600); do
        for drive in /dev/nvme[0-9]*n1; do
            [ -e $drive ] && return 0
        done
        sleep 0.1
    done
    return 1
}
connect $port $nqn --nr-io-queues=2 || echo "GUEST: refused with no secret"
connect $port $nqn --dhchap-secret=$wrong || echo "GUEST: refused with a wrong secret"
connect $port $nqn --dhchap-secret=$secret --dhchap-ctrl-secret=$wrong || echo "GUEST: refused with another controller"
connect $port $nqn --nr-io-queues=2 --dhchap-secret=$secret
find_drive
use $drive
zero $drive
echo "GUEST: used with a secret"
disconnect $nqn
connect $port $nqn --nr-io-queues=2 --dhchap-secret=$secret --dhchap-ctrl-secret=$controller
find_drive
use $drive
zero $drive
echo "GUEST: used with both secrets"
disconnect $nqn
dmesg | sed -n 's/.*\(qid [0-9]*: .*authenticated\)/GUEST: \1/p'
