"""Runs the management command of a service, such as `cinder-manage db sync`.

Usage: manage.py SERVICE CONFIG ARGUMENT...
"""
import importlib
import sys

service, config, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.argv = [service + "-manage", "--config-file", config] + arguments
sys.exit(importlib.import_module(service + ".cmd.manage").main())
