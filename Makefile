.PHONY: install test matrix lint format quickstart

install:
	bash scripts/install.sh

test:
	bash scripts/test.sh

matrix:
	bash scripts/test.sh -m matrix

lint:
	.venv/bin/ruff check . && .venv/bin/ruff format --check .

format:
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

quickstart:
	bash recipes/quickstart.sh
