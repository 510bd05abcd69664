"""Reads a profile with tuned's own code, on a recorded machine.

read_tuned.py MODULES ROOT PROFILE: MODULES is the folder with tuned's Python modules. Prints the
plugins of the merged profile with their options, variables and functions expanded, as JSON.
"""

import json
import logging
import os
import sys

modules, root, profile = sys.argv[1:]
sys.path.insert(0, modules)

import tuned.consts as consts
from tuned.profiles.factory import Factory
from tuned.profiles.loader import Loader
from tuned.profiles.locator import Locator
from tuned.profiles.merger import Merger
from tuned.profiles.variables import Variables
from tuned.utils.commands import commands

logging.disable(logging.CRITICAL)
consts.SYSFS_CPUS_PATH = root + consts.SYSFS_CPUS_PATH
read_file, read_variables = commands.read_file, Variables.add_from_file


def inside(path):
    return path if path.startswith(root) else root + path


commands.read_file = lambda self, path, *rest, **named: read_file(self, inside(path), *rest, **named)
Variables.add_from_file = lambda self, path: read_variables(self, inside(path))

variables = Variables()
folders = [root + "/usr/lib/tuned", root + "/etc/tuned"]
merged = Loader(Locator(folders), Factory(), Merger(), None, variables).load(profile)
shown = {}
for name, unit in merged.units.items():
    options = unit.options.items()
    expand = {key: variables.expand(str(value)) for key, value in options if key != "script"}
    shown[name] = {"type": unit.type, "enabled": unit.enabled, "options": expand}
print(json.dumps({"units": shown, "isolated": variables.expand("${isolated_cores}")}))
sys.stdout.flush()
os._exit(0)
