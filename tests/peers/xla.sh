#!/bin/sh
# The preset xla beside the kernels that XLA compiled, as xla.txt has them.
command -v python3 >/dev/null || {
    echo "1..0 # SKIP no python3"
    exit 0
}
exec python3 "${FB_SRCDIR:-.}/tests/peers/xla_kernels.py" "${FUSEBOX:-fusebox}"
