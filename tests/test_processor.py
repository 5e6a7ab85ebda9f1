"""What the system says of the processor."""

from cape_fairseq.processor import told


def test_it_is_read_from_the_system(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    assert told("vendor_id", cpuinfo) == ""
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC: 9\n")
    assert told("vendor_id", cpuinfo) == "AuthenticAMD"
    assert told("model name", cpuinfo) == "AMD EPYC: 9"
    assert told("CPU part", cpuinfo) == ""
