#!/bin/sh
# The bundled models in 16 bits: a share of scripts.sh.
exec "${FB_SRCDIR:-.}/tests/differential/scripts.sh" models 16
