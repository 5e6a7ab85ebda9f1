#!/usr/bin/env bash
# A Slurm of this machine alone, to try recipes on: two nodes of a core each, no cgroups.
#
#   scripts/slurm_one_node.sh start DIR     its state goes to DIR
#   scripts/slurm_one_node.sh stop DIR
#
# It needs root, and Debian's packages slurm-wlm and munge. Partition "low" can be preempted by "high".
set -euo pipefail

[ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$2"
folder=$(cd "$2" && pwd)
host=$(hostname -s)

stop() {
    local name
    [ "$(readlink /etc/slurm/slurm.conf)" != "$folder/slurm.conf" ] || rm /etc/slurm/slurm.conf
    for name in slurmctld slurmd-n1 slurmd-n2; do
        if [ -f "$folder/$name.pid" ]; then
            kill "$(cat "$folder/$name.pid")" 2>/dev/null || true
            rm -f "$folder/$name.pid"
        fi
    done
}

start() {
    command -v slurmctld slurmd munged > /dev/null \
        || { echo "slurm: install it first: apt-get install slurm-wlm munge" >&2; exit 1; }
    if ! munge -n > /dev/null 2>&1; then
        mkdir -p /run/munge && chown munge: /run/munge
        runuser -u munge -- munged
    fi
    mkdir -p "$folder/state" "$folder/spool-n1" "$folder/spool-n2"
    cat > "$folder/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
SlurmctldPort=16817
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdSpoolDir=$folder/spool-%n
StateSaveLocation=$folder/state
SlurmdTimeout=15
KillWait=60
SchedulerParameters=batch_sched_delay=0,sched_interval=2
NodeName=n[1-2] NodeHostname=$host Port=[17001-17002] CPUs=1 RealMemory=16000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 State=UP
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF State=UP
CONF
    # Jobs look for it there.
    mkdir -p /etc/slurm
    ln -s "$folder/slurm.conf" /etc/slurm/slurm.conf \
        || { echo "slurm: /etc/slurm/slurm.conf is there already; stop that Slurm first" >&2; exit 1; }
    slurmctld
    slurmd -N n1
    slurmd -N n2
    local i
    for i in $(seq 60); do
        if [ "$(sinfo -h -t idle -o %D 2>/dev/null | sort -n | tail -1)" = 2 ]; then
            echo "slurm: two nodes are up"
            return
        fi
        sleep 1
    done
    echo "slurm: the nodes are not up after $i s; see $folder/*.log" >&2
    exit 1
}

case $1 in
    start) start ;;
    stop) stop ;;
    *) echo "slurm: $1 is not start or stop" >&2; exit 2 ;;
esac
