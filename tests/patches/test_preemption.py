"""SIGTERM: a checkpoint is saved, and the same command goes on."""

import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time

from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator

from cape_fairseq.patches.preemption import request_stop, stop
from tests.patches.support import command, updates_of
from tests.support import TIMEOUT, free_port, held, one_of_two, run, train, train_losses

VALIDATION_HELD = """
import sys
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main
valid_step = Trainer.valid_step
def held(self, *arguments, **options):
    if Trainer.valid_step is held:
        Trainer.valid_step = valid_step
        print("HELD", flush=True)
        sys.stdin.readline()
    return valid_step(self, *arguments, **options)
Trainer.valid_step = held
cli_main()
"""


def start(arguments, **options) -> subprocess.Popen:
    return subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def terminate_at(process: subprocess.Popen, update: int) -> str:
    """Send SIGTERM when the log says that an update is done, and let one that waits go on;
    everything that was printed."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if f'"num_updates": "{update}"' in line:
            process.send_signal(signal.SIGTERM)
            process.stdin.write("\n")
            process.stdin.flush()
    process.wait(60)
    return "".join(seen)


def test_sigterm_saves_and_the_same_command_goes_on(data_bin, tmp_path):
    unbroken = train_losses(train(data_bin, tmp_path / "unbroken", "--no-save", updates=16))
    process = start(held(command(data_bin, tmp_path / "run", 16, "--num-workers", 2), 8))
    printed = terminate_at(process, 8)
    assert process.returncode == 143
    assert "Traceback" not in printed
    done = updates_of(tmp_path / "run" / "checkpoint_last.pt")
    assert 8 <= done <= 9
    assert f"stopped by SIGTERM after {done} updates" in printed
    resumed = run(command(data_bin, tmp_path / "run", 16))
    assert train_losses(printed) == unbroken[: len(train_losses(printed))]
    assert train_losses(resumed.stdout + resumed.stderr) == unbroken[done:]


def test_one_process_of_two_is_told_and_both_stop_and_go_on(data_bin, tmp_path):
    port = free_port()
    ranks = [
        start(
            command(
                data_bin,
                tmp_path / "run",
                400,
                *one_of_two(rank, port),
            )
        )
        for rank in (1, 0)
    ]
    printed = terminate_at(ranks[1], 5)
    assert "stopped by SIGTERM" in printed
    other = ranks[0].communicate(timeout=60)[0]
    assert [process.returncode for process in ranks] == [143, 143], other
    done = updates_of(tmp_path / "run" / "checkpoint_last.pt")
    assert done < 400
    port = free_port()
    again = [
        start(command(data_bin, tmp_path / "run", done + 2, *one_of_two(rank, port)))
        for rank in range(2)
    ]
    told = [process.communicate(timeout=TIMEOUT)[0] for process in again]
    assert [process.returncode for process in again] == [0, 0], told
    assert len(train_losses(told[0])) == 2


def test_a_signal_to_all_processes_leaves_those_that_read_batches(data_bin, tmp_path):
    """As a cluster sends it; here more batches of the validation are to come."""
    small = ("--num-workers", 1, "--validate-interval-updates", 2, "--max-tokens-valid", 40)
    small += ("--data-buffer-size", 1)  # most batches are still to be read
    arguments = command(data_bin, tmp_path / "run", 16, *small)
    script = [sys.executable, "-c", VALIDATION_HELD, *arguments[3:]]
    process = start(script, start_new_session=True)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line == "HELD\n":
            os.killpg(process.pid, signal.SIGTERM)
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.wait(TIMEOUT) == 143, "".join(seen[-20:])
    assert updates_of(tmp_path / "run" / "checkpoint_last.pt") == 2


def test_nothing_is_said_to_be_saved_with_no_save(data_bin, tmp_path):
    process = start(held(command(data_bin, tmp_path / "run", 16, "--no-save"), 2))
    printed = terminate_at(process, 2)
    assert process.returncode == 143
    assert re.search(r"stopped by SIGTERM after [23] updates; nothing was saved", printed)


class Numbers(FairseqDataset):
    def __getitem__(self, index):
        return index

    def __len__(self):
        return 8

    def collater(self, samples):
        return samples


def wait(begun) -> None:
    begun.set()
    time.sleep(TIMEOUT)


def test_other_processes_end_as_they_would_have(monkeypatch):
    """Those that something else forked in a training."""
    before = signal.signal(signal.SIGTERM, request_stop)
    monkeypatch.setitem(stop, "process", os.getpid())
    try:
        forked = multiprocessing.get_context("fork")
        begun = forked.Event()
        other = forked.Process(target=wait, args=(begun,))
        other.start()
        begun.wait(TIMEOUT)
        other.terminate()
        other.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert other.exitcode == -signal.SIGTERM


def test_processes_that_read_batches_do_not_pile_up(monkeypatch):
    """Every epoch has an iterator of its own, as with ``--update-epoch-batch-itr True``."""
    monkeypatch.setitem(stop, "process", os.getpid())
    numbers, known = Numbers(), set(multiprocessing.active_children())
    gc.disable()
    try:
        for epoch in range(1, 4):
            batches = [[n, n + 1] for n in range(0, 8, 2)]
            found = EpochBatchIterator(
                numbers, numbers.collater, batches, num_workers=1, epoch=epoch, buffer_size=2
            )
            assert list(found.next_epoch_itr(shuffle=False)) == batches
        limit = time.monotonic() + TIMEOUT / 10
        while set(multiprocessing.active_children()) - known:  # the last one is about to end
            assert time.monotonic() < limit
            time.sleep(0.05)
    finally:
        gc.enable()
