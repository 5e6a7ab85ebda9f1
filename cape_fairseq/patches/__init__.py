"""Repairs of fairseq, one file a fault. Stock models profit, too."""

from cape_fairseq.patches import (
    amp_scale,
    averaged_buffers,
    batch_readers,
    checkpoint_files,
    damaged_checkpoint,
    last_batch,
    loss_is_no_number,
    missing_average,
    preemption,
    read_ahead,
    replace_unk,
    sent_checkpoint,
)

FAULTS = (
    last_batch,
    replace_unk,
    read_ahead,
    batch_readers,
    damaged_checkpoint,
    checkpoint_files,
    loss_is_no_number,
    amp_scale,
    averaged_buffers,
    missing_average,
    preemption,
    sent_checkpoint,
)


def install() -> None:
    """Put every repair in place; ``models`` calls this as it is imported, once in a process."""
    for fault in FAULTS:
        fault.install()
