"""Plant some faults, by their names or parts, or all of them."""

import sys

from soak.faults import chosen, plant_all

try:
    faults = chosen(sys.argv[1:])
except ValueError as error:
    sys.exit(str(error))
failures = plant_all(faults)
print(*failures or ["all were noticed"], sep="\n")
sys.exit(bool(failures))
