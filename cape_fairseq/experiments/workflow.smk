# The jobs of a plan as Snakemake's rules. experiments/engine.py writes the plan and starts this.
import json
import sys

plan = json.load(open(config["plan"], encoding="utf-8"))
gpus = int(config["gpus"])


rule all:
    input:
        plan["targets"],
    default_target: True


for job in plan["jobs"]:
    # Without GPUs a heavy job takes every core; with them those that feed its own, or, if it needs
    # none, half of all.
    cores = 1
    if job["heavy"]:
        cores = int(config["cores"])
        if gpus:
            cores = 4 * job["gpus"] or max(cores // 2, 1)

    rule:
        name: job["rule"]
        input: job["inputs"]
        output: [directory(path) if job["folder"] else path for path in job["outputs"]]
        params:
            name=job["name"],
            commands=[list(command) for command in job["commands"]],
            stdout=job["stdout"],
        log: job["log"]
        benchmark: job["log"].removesuffix(".log") + ".tsv"
        threads: cores
        resources:
            gpu=job["gpus"] * job["nodes"] if gpus else 0,
            nodes=job["nodes"],
            runtime=int(60 * job["hours"]),
            # Two minutes before the time is over Slurm sends SIGTERM, and trainings save.
            slurm_extra="--signal=TERM@120 --requeue",
        shell:
            "exec {sys.executable:q} -m cape_fairseq run-job {config[plan]:q} {params.name:q}"
