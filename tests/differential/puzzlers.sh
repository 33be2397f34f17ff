#!/bin/sh
# The bundled puzzlers: a share of scripts.sh.
exec "${FB_SRCDIR:-.}/tests/differential/scripts.sh" puzzlers
