"""Switches databases to write-ahead logging, so that reading one does not lock out writers.

Usage: wal.py DATABASE...
"""
import sqlite3
import sys

for database in sys.argv[1:]:
    sqlite3.connect(database, timeout=30).execute("PRAGMA journal_mode = WAL")
