# cape-fairseq in a container.
#   docker build -t cape_fairseq .                                   on a CPU
#   docker build -t cape_fairseq --build-arg BASE=nvidia/cuda:12.9.1-runtime-ubuntu24.04 \
#       --build-arg TORCH_INDEX=URL .                                on a GPU
#   docker run -i -v "$PWD/FOLDER:/model:ro" cape_fairseq translate /model < TEXT
ARG BASE=debian:trixie-slim
FROM ${BASE}

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Versions of Debian's packages are those of the base image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

# Where pip looks for torch, too: PyTorch's list of builds for CUDA, or for CPUs alone (smaller).
ARG TORCH_INDEX=
ENV PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=${TORCH_INDEX}
WORKDIR /opt/cape_fairseq
COPY . .
RUN bash scripts/install.sh python3 && useradd --create-home --uid 1000 --non-unique cape
USER 1000
ENV PATH=/opt/cape_fairseq/.venv/bin:${PATH}
WORKDIR /home/cape
ENTRYPOINT ["cape-fairseq"]
CMD ["--help"]
