// Reviews a merge request with @gitbeaker/rest. Prints the results as one JSON object.
// usage: review.mjs LIBRARIES URL TOKEN PROJECT
import { createRequire } from "node:module";

const [libraries, host, token, project] = process.argv.slice(2);
const { Gitlab } = createRequire(`${libraries}/`)("@gitbeaker/rest");

const api = new Gitlab({ host, token });
const made = await api.MergeRequests.create(project, "topic", "main", "A change");
const mergeRequest = await api.MergeRequests.show(project, made.iid);
const { base_sha: baseSha, start_sha: startSha, head_sha: headSha } = mergeRequest.diff_refs;
const discuss = (line, text) =>
  api.MergeRequestDiscussions.create(project, made.iid, `\`\`\`suggestion\n${text}\n\`\`\``, {
    position: {
      positionType: "text",
      baseSha,
      startSha,
      headSha,
      oldPath: "a.txt",
      newPath: "a.txt",
      newLine: String(line),
    },
  });
const discussions = [await discuss(2, "zwei\nzwo"), await discuss(4, "vier")];
const suggestions = discussions.map((discussion) => discussion.notes[0].suggestions[0].id);
const first = discussions[0].id;
const reply = await api.MergeRequestDiscussions.addNote(project, made.iid, first, "I agree");
const edited = await api.MergeRequestDiscussions.editNote(project, made.iid, first, reply.id, {
  body: "I agree entirely",
});
await api.MergeRequestDiscussions.resolve(project, made.iid, first, true);
const ids = (mergeRequests) => mergeRequests.map((one) => one.iid);
const seen = {
  listed: ids(await api.MergeRequests.all({ projectId: project, state: "opened", perPage: 1 })),
  everywhere: (await api.MergeRequests.all({ scope: "all" })).map((one) => one.web_url.split("/-/")[1]),
  commits: (await api.MergeRequests.allCommits(project, made.iid)).map((commit) => commit.title),
  sha: mergeRequest.sha,
  branches: [mergeRequest.source_branch, mergeRequest.target_branch],
  lines: [],
  applied: [],
  reply: reply.body,
  edited: edited.body,
};
const get = async (path) => (await fetch(`${host}/api/v4/${path}`, { headers: { "private-token": token } })).json();
for (const suggestion of suggestions) {
  const shown = await api.Suggestions.edit(suggestion);
  seen.lines.push([shown.from_line, shown.to_line]);
  seen.applied.push((await get(`suggestions/${suggestion}`)).applied);
}
const extra = await api.MergeRequestNotes.create(project, made.iid, "by mistake");
await api.MergeRequestNotes.remove(project, made.iid, extra.id);
try {
  await api.MergeRequestNotes.show(project, made.iid, extra.id);
} catch (error) {
  seen.deleted = error.cause.response.status;
}
const listed = (await api.MergeRequestDiscussions.all(project, made.iid, { perPage: 1 })).map(({ notes }) => notes);
seen.total = listed.length;
seen.resolved = listed.map((notes) => notes[0].resolved);
seen.bodies = listed[0].slice(1).map((note) => (note.system ? "the service" : note.body));
seen.notes = (await api.MergeRequestNotes.all(project, made.iid, { perPage: 2 })).length;
seen.closed = (await api.MergeRequests.edit(project, made.iid, { stateEvent: "close" })).state;
seen.none_open = ids(await api.MergeRequests.all({ projectId: project, state: "opened" }));
console.log(JSON.stringify(seen));
