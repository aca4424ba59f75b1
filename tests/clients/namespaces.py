"""What python-gitlab sees of the namespaces, as one JSON object.

usage: namespaces.py LIBRARIES URL TOKEN
"""

import json
import sys

libraries, url, token = sys.argv[1:]
sys.path.insert(0, libraries)

import gitlab

api = gitlab.Gitlab(url, private_token=token)
pages = api.namespaces.list(iterator=True, per_page=7)
seen = {
    "total": pages.total,
    "pages": pages.total_pages,
    "all": [namespace.id for namespace in pages],
    "found": [n.full_path for n in api.namespaces.list(search="acme/t", full_path_search=True, get_all=True, per_page=4)],
    "one": api.namespaces.get("acme/labs").attributes,
    "taken": api.namespaces.exists("acme").attributes,
    "free": api.namespaces.exists("labs").exists,
    "below": api.namespaces.exists("labs", parent_id=10).suggests,
}
try:
    api.namespaces.get("nobody")
except gitlab.exceptions.GitlabGetError as error:
    seen["missing"] = [error.response_code, error.error_message]
print(json.dumps(seen))
