"""Reviews a merge request with python-gitlab. Prints the results as one JSON object.

usage: review.py LIBRARIES URL TOKEN PROJECT
"""

import json
import sys

libraries, url, token, project = sys.argv[1:]
sys.path.insert(0, libraries)

import gitlab

api = gitlab.Gitlab(url, private_token=token)
project = api.projects.get(int(project))
made = project.mergerequests.create({"source_branch": "topic", "target_branch": "main", "title": "A change"})
merge_request = project.mergerequests.get(made.iid)


def discuss(line, text):
    position = {"position_type": "text", "old_path": "a.txt", "new_path": "a.txt", "new_line": line}
    body = f"```suggestion\n{text}\n```"
    return merge_request.discussions.create({"body": body, "position": {**merge_request.diff_refs, **position}})


discussions = [discuss(2, "zwei\nzwo"), discuss(4, "vier")]
everywhere = [one.web_url for one in api.mergerequests.list(scope="all", get_all=True)]
commits = [commit.title for commit in merge_request.commits()]
suggestions = [discussion.attributes["notes"][0]["suggestions"][0]["id"] for discussion in discussions]
first = merge_request.discussions.get(discussions[0].id)
reply = first.notes.create({"body": "I agree"})
text = reply.body
reply.body = "I agree entirely"
reply.save()
first.resolved = True
first.save()
seen = {
    "listed": [one.iid for one in project.mergerequests.list(state="opened", iterator=True, per_page=1)],
    "everywhere": [url.split("/-/")[1] for url in everywhere],
    "commits": commits,
    "sha": merge_request.sha,
    "branches": [merge_request.source_branch, merge_request.target_branch],
    "lines": [],
    "reply": text,
    "edited": first.notes.get(reply.id).body,
}
for suggestion in suggestions:
    shown = api.http_put(f"/suggestions/{suggestion}/apply")
    seen["lines"].append([shown["from_line"], shown["to_line"]])
seen["applied"] = [api.http_get(f"/suggestions/{suggestion}")["applied"] for suggestion in suggestions]
extra = merge_request.notes.create({"body": "by mistake"})
extra.delete()
try:
    merge_request.notes.get(extra.id)
except gitlab.exceptions.GitlabGetError as error:
    seen["deleted"] = error.response_code
pages = merge_request.discussions.list(iterator=True, per_page=1)
seen["total"] = pages.total
listed = [discussion.attributes["notes"] for discussion in pages]
seen["resolved"] = [notes[0]["resolved"] for notes in listed]
seen["bodies"] = ["the service" if note["system"] else note["body"] for note in listed[0][1:]]
seen["notes"] = len(merge_request.notes.list(get_all=True, per_page=2))
merge_request.state_event = "close"
merge_request.save()
seen["closed"] = project.mergerequests.get(made.iid).state
seen["none_open"] = [one.iid for one in project.mergerequests.list(state="opened", get_all=True)]
print(json.dumps(seen))
