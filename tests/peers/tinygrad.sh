#!/bin/sh
# The preset tinygrad beside the package's own scheduler. PYTHON is the interpreter (python3); skipped where it has no
# tinygrad ("python3 -m venv tg && tg/bin/pip install tinygrad", then PYTHON=tg/bin/python3).
here=${FB_SRCDIR:-.}/tests/peers
python=${PYTHON:-python3}
if ! "$python" -c 'import tinygrad' 2>/dev/null; then
    echo "1..0 # SKIP $python has no tinygrad"
    exit 0
fi
exec "$python" "$here/tinygrad_kernels.py" "${FUSEBOX:-fusebox}"
