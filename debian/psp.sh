#!/bin/sh
PYTHONPATH=/usr/lib/psp/python exec /usr/bin/python3 -m psp "$@"
