"""Creates the tables of Manila from its models, because its migrations do not run on SQLite.

Usage: manila_tables.py CONFIG
"""
import sys

from manila.common import config  # registers the options
from manila.db.sqlalchemy import api, models
from oslo_config import cfg

cfg.CONF(["--config-file", sys.argv[1]], project="manila")
models.BASE.metadata.create_all(api.get_engine())
