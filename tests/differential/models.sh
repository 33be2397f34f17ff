#!/bin/sh
# The bundled models in 32 bits: a share of scripts.sh.
exec "${FB_SRCDIR:-.}/tests/differential/scripts.sh" models 32
