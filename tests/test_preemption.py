"""SIGTERM: what trainings do, and what other commands do."""

import os
import signal
import sys
import threading

import fairseq_cli.interactive
import torch
from fairseq.distributed import utils

from cape_fairseq import preemption
from tests.support import add_options, start_forked, train

ARCH = "sinpos_transformer_tiny"


class TestSignals:
    def test_commands_that_do_not_train_die_of_sigterm(self, data_bin, cape_checkpoint):
        """On a machine with two GPUs, which the CPU stands for."""
        options = ("--path", cape_checkpoint, "--cpu", "--source-lang", "en", "--target-lang", "de")

        def translate() -> None:
            os.dup2(os.pipe()[0], 0)  # an input that does not end
            sys.stdin = os.fdopen(0)
            torch.cuda.device_count = lambda: 2
            utils.infer_init_method = lambda *args, **kwargs: None
            sys.argv = ["fairseq-interactive", *add_options("interactive", [data_bin, *options])]
            fairseq_cli.interactive.cli_main()

        process, output = start_forked(translate)
        with output:
            for line in output:
                if "Type the input sentence" in line:
                    os.kill(process, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGTERM

    def test_a_training_outside_of_the_main_thread_installs_no_handler(self, data_bin, tmp_path):
        """A training in the main thread leaves the handler as it was."""
        output = []

        def work():
            output.append(train(data_bin, tmp_path, arch=ARCH, updates=len(output) + 1))

        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            expected = signal.getsignal(signal.SIGTERM)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert "done training" in output[0]
            assert signal.getsignal(signal.SIGTERM) is expected
            work()
            assert signal.getsignal(signal.SIGTERM) is expected
        finally:
            signal.signal(signal.SIGTERM, before)


def test_a_signal_at_the_end_of_an_epoch_is_not_lost():
    def train_epoch(sends):
        if sends:
            os.kill(os.getpid(), signal.SIGTERM)

    wrapped = preemption.catch_sigterm(train_epoch)
    try:
        for sends in (True, False):
            wrapped(sends)
        assert preemption.is_any_signalled(torch.device("cpu"))
    finally:
        preemption.is_signalled.clear()
