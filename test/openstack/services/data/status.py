"""Changes the status of a volume or a share, and adds messages: it writes what a manager of storage
would write to the database. Cinder deletes a volume without a host in any status.

Usage: status.py SERVICE DATABASE < CHANGE. CHANGE is a JSON object {"ID", "ProjectID", "Status",
"Reasons"}, and each reason is {"Action", "Detail"}.
"""
import json
import sqlite3
import sys
import uuid

SERVICES = {
    "cinder": {"table": "volumes", "id": "id", "resource": "resource_uuid", "type": "VOLUME"},
    "manila": {"table": "share_instances", "id": "share_id", "resource": "resource_id",
               "type": "SHARE"},
}


def add_message(database, service, change, reason):
    """Adds a message without a request, so that all values but IDs and times are known."""
    row = {
        "id": str(uuid.uuid4()), "project_id": change["ProjectID"], "message_level": "ERROR",
        "resource_type": service["type"], service["resource"]: change["ID"],
        "action_id": reason["Action"], "detail_id": reason["Detail"],
        "deleted": False if service["type"] == "VOLUME" else "False",
    }
    if service["type"] == "VOLUME":
        row["event_id"] = f"VOLUME_VOLUME_{reason['Action']}_{reason['Detail']}"
    database.execute(
        f"INSERT INTO messages (created_at, expires_at, {', '.join(row)}) "
        f"VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), datetime('now', '30 days'), "
        f"{', '.join('?' * len(row))})",
        list(row.values()))


def main():
    service, change = SERVICES[sys.argv[1]], json.load(sys.stdin)
    database = sqlite3.connect(sys.argv[2], timeout=30)
    changed = database.execute(
        f"UPDATE {service['table']} SET host = 'host-0@backend#pool', status = ?, "
        f"updated_at = datetime('now') WHERE {service['id']} = ?", [change["Status"], change["ID"]])
    if changed.rowcount != 1:
        sys.exit(f"{changed.rowcount} records have the ID {change['ID']}")
    for reason in change["Reasons"] or []:
        add_message(database, service, change, reason)
    database.commit()


main()
