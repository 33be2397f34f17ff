#!/bin/sh
# The preset inductor beside the kernels that torch.compile generated, as inductor.txt has them.
command -v python3 >/dev/null || {
    echo "1..0 # SKIP no python3"
    exit 0
}
exec python3 "${FB_SRCDIR:-.}/tests/peers/inductor_kernels.py" "${FUSEBOX:-fusebox}"
