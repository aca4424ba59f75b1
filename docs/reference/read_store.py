"""Reads a stopped host's store: its users, projects and packages. It checks each file against its digest.

Usage: python3 read_store.py data/sqlite_key_value.db
"""

import base64
import hashlib
import json
import sqlite3
import sys


def main(path):
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def under(prefix):
        rows = store.execute(
            "SELECT key, value FROM spin_key_value WHERE store = 'default' AND substr(key, 1, ?) = ? ORDER BY key",
            (len(prefix), prefix),
        )
        return {key[len(prefix):]: bytes(value) for key, value in rows}

    def records(prefix):
        # A counter `<root>/init` is beside a root; `null` is a deleted record.
        values = {key: value for key, value in under(prefix).items() if not key.endswith("/init")}
        return {key: json.loads(value) for key, value in values.items() if value != b"null"}

    namespaces = records("directory/v1/namespace/")

    def full_path(namespace):
        record = namespaces[str(namespace)]
        parent = record.get("parent_id")
        return f"{full_path(parent)}/{record['path']}" if parent else record["path"]

    for key, user in records("directory/v1/user/").items():
        print(f"user {key} {user['username']}")
    for key, project in records("directory/v1/project/").items():
        print(f"project {key} {full_path(project['namespace_id'])}/{project['path']}")
    for key in records("package-registry/v1/package/"):
        project, name = key.split("/", 1)
        print(f"package {name} in project {project}")
    files = under("package-registry/v1/upload/")
    for key, value in files.items():
        if "/" in key:
            continue
        upload = json.loads(value)
        chunks = sorted(int(other.split("/")[1]) for other in files if other.startswith(key + "/") and other.split("/")[1].isdigit())
        content = b"".join(files[f"{key}/{number}"] for number in chunks)
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        is_sound = upload["integrity"] == f"sha512-{digest}" and upload["size"] == len(content)
        print(f"file {upload['size']} {'sound' if is_sound else 'DAMAGED'}")


if __name__ == "__main__":
    main(sys.argv[1])
