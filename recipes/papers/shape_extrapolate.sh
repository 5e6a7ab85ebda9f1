#!/usr/bin/env bash
# SHAPE, Tables 2 and 5, Extrapolate.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers shape_extrapolate "$@"
