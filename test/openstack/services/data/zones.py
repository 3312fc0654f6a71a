"""Replaces the availability zones of a service: it writes what running storage and compute hosts
would write to the databases.

Usage: zones.py SERVICE DATABASE... < ZONES. ZONES is a JSON list of {"Name", "Unavailable"}. A zone
that is unavailable has a host that is disabled.
"""
import json
import sqlite3
import sys
import uuid


def insert(database, table, **row):
    """Inserts a row, with the time of its creation, and returns its ID."""
    columns = "created_at, updated_at, " + ", ".join(row)
    values = "datetime('now'), datetime('now'), " + ", ".join("?" * len(row))
    statement = f"INSERT INTO {table} ({columns}) VALUES ({values})"
    return database.execute(statement, list(row.values())).lastrowid


def host(database, number, zone, **row):
    """Inserts the row of the service that runs on a host."""
    return insert(database, "services", host=f"host-{number}@backend", report_count=1,
                  disabled=bool(zone["Unavailable"]), **row)


def cinder(zones, database):
    database.execute("DELETE FROM services")
    for number, zone in enumerate(zones):
        host(database, number, zone, binary="cinder-volume", topic="cinder-volume", deleted=False,
             availability_zone=zone["Name"], uuid=str(uuid.uuid4()), rpc_current_version="3.17",
             object_current_version="1.39")


def manila(zones, database):
    database.execute("DELETE FROM services")
    database.execute("DELETE FROM availability_zones")
    for number, zone in enumerate(zones):
        identity = str(uuid.uuid4())
        insert(database, "availability_zones", id=identity, name=zone["Name"], deleted="False")
        host(database, number, zone, binary="manila-share", topic="manila-share", deleted=False,
             availability_zone_id=identity)


def nova(zones, api, cell):
    """Puts the host of each zone into an aggregate. Zone nova is that of a host without one."""
    cell.execute("DELETE FROM services")
    for table in "host_mappings", "aggregate_hosts", "aggregate_metadata", "aggregates":
        api.execute("DELETE FROM " + table)
    (cell_id,) = api.execute("SELECT id FROM cell_mappings WHERE name = 'cell1'").fetchone()
    for number, zone in enumerate(zones):
        service = host(cell, number, zone, binary="nova-compute", topic="compute", deleted=False,
                       forced_down=False, version=64, uuid=str(uuid.uuid4()))
        cell.execute("UPDATE services SET last_seen_up = updated_at WHERE id = ?", [service])
        (name,) = cell.execute("SELECT host FROM services WHERE id = ?", [service]).fetchone()
        insert(api, "host_mappings", cell_id=cell_id, host=name)
        if zone["Name"] == "nova":
            continue
        aggregate = insert(api, "aggregates", uuid=str(uuid.uuid4()), name=f"zone-{number}")
        insert(api, "aggregate_hosts", host=name, aggregate_id=aggregate)
        insert(api, "aggregate_metadata", aggregate_id=aggregate, key="availability_zone",
               value=zone["Name"])


def main():
    service, names = sys.argv[1], sys.argv[2:]
    databases = [sqlite3.connect(name, timeout=30) for name in names]
    globals()[service](json.load(sys.stdin), *databases)
    for database in databases:
        database.commit()


main()
