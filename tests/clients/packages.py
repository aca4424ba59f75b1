"""Prints what python-gitlab reads and changes of the packages of a project, as one JSON object.

usage: packages.py LIBRARIES URL TOKEN
"""

import json
import sys

libraries, url, token = sys.argv[1:]
sys.path.insert(0, libraries)

import gitlab

api = gitlab.Gitlab(url, private_token=token)
project = api.projects.get("acme/open", lazy=True)
group = api.groups.get("acme", lazy=True)
packages = project.packages.list(get_all=True, per_page=2)
seen = {
    "versions": [package.version for package in packages],
    "of_group": [p.version for p in group.packages.list(get_all=True, per_page=2, order_by="version", sort="desc", package_type="npm", package_name="lib")],
}
package = project.packages.get(packages[1].id)
seen["one"] = [package.name, package.version, package.package_type, package.status]
files = package.package_files.list(get_all=True)
seen["files"] = [file.file_name for file in files]
seen["pipelines"] = package.pipelines.list(get_all=True)
package.package_files.delete(files[0].id)
project.packages.delete(packages[0].id)
seen["left"] = [package.version for package in project.packages.list(get_all=True)]
try:
    project.packages.get(packages[0].id)
except gitlab.exceptions.GitlabGetError as error:
    seen["missing"] = error.response_code
rule = project.package_protection_rules.create(
    {"package_name_pattern": "@acme/*", "package_type": "npm", "minimum_access_level_for_push": "owner"}
)
seen["rule"] = [rule.package_name_pattern, rule.minimum_access_level_for_push]
rule.minimum_access_level_for_push = "admin"
rule.save()
seen["changed"] = project.package_protection_rules.list(get_all=True)[0].minimum_access_level_for_push
rule.delete()
seen["rules"] = len(project.package_protection_rules.list(get_all=True))
print(json.dumps(seen))
