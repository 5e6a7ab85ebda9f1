"""What the system says of the processor, and of a process' memory."""

import multiprocessing
import os

from cape_fairseq.system import cores, resident, told


def test_it_is_read_from_the_system(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    assert told("vendor_id", cpuinfo) == ""
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC: 9\n")
    assert told("vendor_id", cpuinfo) == "AuthenticAMD"
    assert told("model name", cpuinfo) == "AMD EPYC: 9"
    assert told("CPU part", cpuinfo) == ""


def test_threads_are_as_openmp_is_told_or_all_that_are_allowed(monkeypatch):
    for given, expected in (("3", 3), ("4,2", 4), ("", None), ("0", None), ("x", None)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert cores() == (expected or len(os.sched_getaffinity(0)))


def test_memory_is_that_of_one_process():
    """The peak of a process counts what it has freed, and nothing of the one that started it."""
    held = b"x" * 400 * 2**20
    assert resident("VmRSS") >= len(held)
    del held
    assert resident("VmHWM") >= 400 * 2**20
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(resident, ("VmHWM",)) < 200 * 2**20
