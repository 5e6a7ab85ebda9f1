#!/usr/bin/env bash
# SHAPE, Tables 1, 2 and 5, Interpolate.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers shape_interpolate "$@"
