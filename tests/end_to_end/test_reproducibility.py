"""Same seed, same run; a killed run goes on as if nothing had happened; ranks draw different
numbers."""

import os
import signal
import subprocess

import torch

from tests.support import (
    fairseq_command,
    free_port,
    held,
    one_of_two,
    train,
    train_arguments,
    train_losses,
)

SAVING = ("--save-interval-updates", 5, "--keep-interval-updates", 1)


def state(folder) -> dict[str, torch.Tensor]:
    """Parameters and optimizer state of the last checkpoint."""
    checkpoint = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    found = dict(checkpoint["model"])
    for number, moments in checkpoint["last_optimizer_state"]["state"].items():
        found.update(
            {f"{number}.{name}": torch.as_tensor(value) for name, value in moments.items()}
        )
    return found


def test_a_killed_run_resumes_bit_for_bit(data_bin, tmp_path):
    updates = 24  # more than two epochs
    unbroken = train(data_bin, tmp_path / "unbroken", *SAVING, updates=updates)
    arguments = train_arguments(data_bin, tmp_path / "killed", "cape_transformer_tiny", updates)
    command = fairseq_command("train", *arguments, *SAVING)
    process = subprocess.Popen(
        [str(part) for part in held(command, 17)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        # Two updates after a checkpoint, in the middle of an epoch.
        if '"num_updates": "17"' in line:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    begun = torch.load(tmp_path / "killed" / "checkpoint_last.pt", weights_only=True)
    done = begun["optimizer_history"][-1]["num_updates"]
    assert done == 15
    assert begun["extra_state"]["train_iterator"]["iterations_in_epoch"] > 0
    resumed = train(data_bin, tmp_path / "killed", *SAVING, updates=updates)
    expected, first, second = (
        train_losses(unbroken),
        train_losses("".join(seen)),
        train_losses(resumed),
    )
    assert first == expected[: len(first)]  # the same seed gives the same losses
    assert second == expected[done:]
    one, two = state(tmp_path / "unbroken"), state(tmp_path / "killed")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


RECORD = """
import sys
from cape_fairseq.models.positional_transformer import PositionalTransformer
draw = PositionalTransformer.draw
def record(self, *tokens):
    pair = draw(self, *tokens)
    print("SHIFTS", [round(x, 5) for x in pair.source.shift.flatten().tolist()], flush=True)
    stacks = (self.encoder, self.decoder)
    print("OMEGA", [stack.layers[-1].fc_omega.tolist() for stack in stacks], flush=True)
    return pair
PositionalTransformer.draw = record
import fairseq_cli.train
fairseq_cli.train.cli_main()
"""


def test_two_processes_draw_different_numbers_and_train(data_bin, tmp_path):
    port, ranks = free_port(), []
    for rank in range(2):
        arguments = fairseq_command(
            "train",
            *train_arguments(data_bin, tmp_path / "save", "cape_transformer_tiny", 4),
            *one_of_two(rank, port),
            "--residual-init",
            "admin",
        )
        command = [
            arguments[0],
            "-c",
            RECORD,
            *arguments[3:],
        ]  # as "python -m fairseq_cli.train", recorded
        ranks.append(
            subprocess.Popen(
                [str(part) for part in command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        )
    outputs = [process.communicate(timeout=240)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], (
        outputs[0][-2000:] + outputs[1][-2000:]
    )
    shifts = [
        [line for line in output.splitlines() if line.startswith("SHIFTS")] for output in outputs
    ]
    assert len(shifts[0]) == len(shifts[1]) == 4
    every = [number for lines in shifts for line in lines for number in line[8:-1].split(", ")]
    assert len(set(every)) > 0.99 * len(every)  # no number occurs twice, across ranks and updates
    # legacy_ddp copies no parameters: both have profiled the same omegas, and updates keep them the
    # same.
    omegas = [
        [line for line in output.splitlines() if line.startswith("OMEGA")] for output in outputs
    ]
    assert omegas[0] == omegas[1]
    assert "1.0, 1.0" not in omegas[0][0]
    losses = train_losses(outputs[0])
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert (tmp_path / "save" / "checkpoint_last.pt").exists()
