#!/usr/bin/env bash
# SHAPE, Table 2, Extrapolate: WMT16 en-de (Kiyono et al. 2021).
source "$(dirname "${BASH_SOURCE[0]}")/shape.sh"
derive=filter
experiment "$@"
