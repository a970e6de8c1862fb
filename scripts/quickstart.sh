#!/usr/bin/env bash
# From nothing to four learning curves: sets up, makes the tiny model and its data, trains four algorithms on one seed.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
acrl model make tiny-base
acrl data make
python scripts/train_all.py --out runs/quickstart
echo "Watch the curves:  .venv/bin/tensorboard --logdir runs/quickstart"
