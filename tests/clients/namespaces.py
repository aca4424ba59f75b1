"""What python-gitlab sees of the namespaces, as one JSON object.

usage: namespaces.py LIBRARIES URL TOKEN TOKEN-OF-A-MEMBER
"""

import json
import sys

libraries, url, token, member = sys.argv[1:]
sys.path.insert(0, libraries)

import gitlab

api = gitlab.Gitlab(url, private_token=token)
mine = gitlab.Gitlab(url, private_token=member)
pages = api.namespaces.list(iterator=True, per_page=7)


def ids(api, **filters):
    return [namespace.id for namespace in api.namespaces.list(get_all=True, per_page=2, **filters)]


seen = {
    "total": pages.total,
    "pages": pages.total_pages,
    "all": [namespace.id for namespace in pages],
    "found": [n.full_path for n in api.namespaces.list(search="acme/t", full_path_search=True, get_all=True, per_page=4)],
    "word": ids(api, search="TEAM-11"),
    "top": ids(api, top_level_only=True),
    "together": ids(api, search="acme", full_path_search=True, top_level_only=True),
    "mine": ids(mine),
    "owned": ids(mine, owned_only=True),
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
