"""SIGTERM: what trainings do, and what other commands do."""

import os
import signal
import subprocess
import sys
import threading

import torch

from cape_fairseq import preemption
from tests.support import ROOT, train

ARCH = "sinpos_transformer_tiny"


class TestSignals:
    def test_commands_that_do_not_train_die_of_sigterm(self, data_bin, cape_checkpoint, tmp_path):
        """On a machine with two GPUs, which the CPU stands for."""
        script = tmp_path / "interactive.py"
        script.write_text(
            "import torch\n"
            "import fairseq_cli.interactive as module\n"
            "from fairseq.distributed import utils\n"
            "if __name__ == '__main__':\n"
            "    torch.cuda.device_count = lambda: 2\n"
            "    utils.infer_init_method = lambda *args, **kwargs: None\n"
            "    module.cli_main()\n"
        )
        options = ("--path", cape_checkpoint, "--cpu", "--user-dir", ROOT / "cape_fairseq")
        languages = ("--source-lang", "en", "--target-lang", "de")
        command = [sys.executable, "-u", script, data_bin, *options, *languages]
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        for line in process.stdout:
            if "Type the input sentence" in line:
                process.send_signal(signal.SIGTERM)
                break
        process.communicate()
        assert process.returncode == -signal.SIGTERM

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
