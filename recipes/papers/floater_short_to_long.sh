#!/usr/bin/env bash
# FLOATER, Figure 2 (its numbers are in a figure only).
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers floater_short_to_long "$@"
