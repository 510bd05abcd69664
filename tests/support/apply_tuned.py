"""Applies a profile with tuned's own plugins to a recorded machine, verifies and removes it.

apply_tuned.py MODULES ROOT PROFILE: only the plugins sysctl and sysfs, which write files. Prints the
result of the verification before, while and after the profile is applied, and what was written, as
JSON.
"""

import glob
import json
import logging
import os
import sys

modules, root, profile = sys.argv[1:]
sys.path.insert(0, modules)

import tuned.plugins.plugin_sysctl as sysctl
import tuned.plugins.plugin_sysfs as sysfs
from tuned.plugins.instance.factory import Factory as InstanceFactory
from tuned.profiles.factory import Factory
from tuned.profiles.loader import Loader
from tuned.profiles.locator import Locator
from tuned.profiles.merger import Merger
from tuned.profiles.variables import Variables
from tuned.utils.commands import commands

logging.disable(logging.CRITICAL)
read_file, write_file = commands.read_file, commands.write_to_file
commands.read_file = lambda self, path, *rest, **named: read_file(self, root + path, *rest, **named)
commands.write_to_file = lambda self, path, *rest, **named: write_file(self, root + path, *rest, **named)
path_of = sysctl._get_sysctl_path
sysctl._get_sysctl_path = lambda name: root + path_of(name)
found = glob.iglob
sysfs.glob.iglob = lambda pattern: (path[len(root) :] for path in found(root + pattern))


class Storage:
    """Keeps nothing: the process that applies a profile also removes it."""

    def create(self, name):
        return self

    def get(self, key, default=None):
        return default

    def set(self, key, value):
        pass

    def unset(self, key):
        pass


class Settings:
    """Does not apply the machine's own sysctl.d again."""

    def get_bool(self, name, default=None):
        return False


variables = Variables()
merged = Loader(Locator([root + "/etc/tuned"]), Factory(), Merger(), None, variables).load(profile)
results, written = {}, {}
for name, unit in merged.units.items():
    kind = {"sysctl": sysctl.SysctlPlugin, "sysfs": sysfs.SysfsPlugin}.get(unit.type)
    if kind is None:
        continue
    plugin = kind(None, Storage(), None, None, None, InstanceFactory(), Settings(), variables)
    instance = plugin.create_instance(name, "*", None, None, None, unit.options)
    plugin._instance_init(instance)
    before = plugin._instance_verify_static(instance, False, [])
    plugin._instance_apply_static(instance)
    during = plugin._instance_verify_static(instance, False, [])
    originals = getattr(instance, "_sysctl_original", None) or getattr(instance, "_sysfs_original", {})
    written[name] = sorted(originals)
    plugin._instance_unapply_static(instance)
    results[name] = [before, during, plugin._instance_verify_static(instance, False, [])]
print(json.dumps({"verified": results, "written": written}))
sys.stdout.flush()
os._exit(0)
