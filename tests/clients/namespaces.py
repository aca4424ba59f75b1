"""Prints the namespaces, users, projects and groups that python-gitlab reads, as one JSON object.

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
    "version": list(api.version()),
    "projects": [project.id for project in mine.projects.list(iterator=True, per_page=1, order_by="id", sort="asc")],
    "keyset": [p.id for p in mine.projects.list(iterator=True, per_page=1, order_by="id", sort="asc", pagination="keyset")],
    "project": mine.projects.get("acme/labs/secret").path_with_namespace,
    "of_group": [project.id for project in mine.groups.get("acme").projects.list(include_subgroups=True, get_all=True)],
    "members": [m.username for m in mine.projects.get("acme/labs/secret").members_all.list(get_all=True, per_page=1)],
    "groups": [group.full_path for group in mine.groups.list(get_all=True, search="labs")],
    "users": [user.username for user in mine.users.list(username="gus")],
    "user": mine.users.get(2).username,
    "features": [feature.name for feature in api.features.list()],
    "feature": api.features.set("shiny", True).state,
    "settings": api.settings.get().license,
}
mine.auth()
seen["me"] = mine.user.username
try:
    api.namespaces.get("nobody")
except gitlab.exceptions.GitlabGetError as error:
    seen["missing"] = [error.response_code, error.error_message]
minted = api.users.get(3).personal_access_tokens.create({"name": "ci", "scopes": ["api"]})
tokens = mine.personal_access_tokens.list(get_all=True)
seen["tokens"] = [token.name for token in tokens]
token = mine.personal_access_tokens.get(minted.id)
token.rotate()
seen["rotated"] = token.token != minted.token
mine.personal_access_tokens.get("self")
api.personal_access_tokens.delete(mine.personal_access_tokens.list(search="ci", state="active", get_all=True)[0].id)
seen["active"] = [token.name for token in mine.personal_access_tokens.list(state="active", get_all=True)]
print(json.dumps(seen))
