import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.*)"$', (HERE / "cape_fairseq" / "__init__.py").read_text(), re.M
)[1]

setup(
    name="cape_fairseq",
    version=VERSION,
    description="Position encodings for machine translation with fairseq: CAPE, SHAPE, FLOATER",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["cape_fairseq", "cape_fairseq.*"]),
    install_requires=[
        "fairseq-fixed>=0.12.3.1,<0.13",
        "torch>=2.6",
        "matplotlib>=3.7",
        "num2words>=0.5.13",
        "sacrebleu>=2.3,<3",
        "sacremoses>=0.1",
        "scipy>=1.9",
        "sentencepiece>=0.2",
        "sentencex>=1",
        "subword-nmt>=0.3.8",
        "torchdiffeq>=0.2.3",
        "tqdm>=4.60",
    ],
    entry_points={"console_scripts": ["cape-fairseq = cape_fairseq.cli:main"]},
    extras_require={
        "ctranslate2": ["ctranslate2>=4.6,<5"],
        "import": ["transformers>=5"],
        "papers": ["snakemake>=9", "snakemake-executor-plugin-slurm>=2"],
        "peers": ["transformers>=5"],
        "test": [
            "pytest>=8",
            "pytest-timeout>=2",
            "pytest-xdist>=3",
            "ruff>=0.6",
            "safetensors>=0.4",
            "transformers>=5",
        ],
    },
)
