// Prints the namespaces, users, projects and groups that @gitbeaker/rest reads, as one JSON object.
// usage: namespaces.mjs LIBRARIES URL TOKEN TOKEN-OF-A-MEMBER
import { createRequire } from "node:module";

const [libraries, host, token, member] = process.argv.slice(2);
const { Gitlab } = createRequire(`${libraries}/`)("@gitbeaker/rest");

const api = new Gitlab({ host, token });
const mine = new Gitlab({ host, token: member });
const ids = async (api, filters) =>
  (await api.Namespaces.all({ perPage: 2, ...filters })).map((namespace) => namespace.id);
const first = await api.Namespaces.all({ perPage: 7, maxPages: 1, showExpanded: true, pagination: "offset" });
const seen = {
  total: first.paginationInfo.total,
  pages: first.paginationInfo.totalPages,
  all: (await api.Namespaces.all({ perPage: 7 })).map((namespace) => namespace.id),
  found: (await api.Namespaces.all({ search: "acme/t", fullPathSearch: true, perPage: 4 })).map((n) => n.full_path),
  word: await ids(api, { search: "TEAM-11" }),
  top: await ids(api, { topLevelOnly: true }),
  together: await ids(api, { search: "acme", fullPathSearch: true, topLevelOnly: true }),
  mine: await ids(mine, {}),
  owned: await ids(mine, { ownedOnly: true }),
  one: await api.Namespaces.show("acme/labs"),
  taken: await api.Namespaces.exists("acme"),
  free: (await api.Namespaces.exists("labs")).exists,
  below: (await api.Namespaces.exists("labs", { parentId: 10 })).suggests,
  projects: (await mine.Projects.all({ perPage: 1, orderBy: "id", sort: "asc" })).map((project) => project.id),
  keyset: (await mine.Projects.all({ perPage: 1, orderBy: "id", sort: "asc", pagination: "keyset" })).map((p) => p.id),
  project: (await mine.Projects.show("acme/labs/secret")).path_with_namespace,
  of_group: (await mine.Groups.allProjects("acme", { includeSubgroups: true })).map((project) => project.id),
  members: (await mine.ProjectMembers.all("acme/labs/secret", { includeInherited: true })).map((member) => member.username),
  groups: (await mine.Groups.all({ search: "labs" })).map((group) => group.full_path),
  users: (await mine.Users.all({ username: "gus" })).map((user) => user.username),
  user: (await mine.Users.show(2)).username,
  me: (await mine.Users.showCurrentUser()).username,
  tokens: (await mine.PersonalAccessTokens.all()).map((token) => token.name),
};
const minted = await api.Users.createPersonalAccessToken(3, "ci", ["api"]);
const rotated = await mine.PersonalAccessTokens.rotate(minted.id);
seen.rotated = rotated.token !== minted.token;
await mine.PersonalAccessTokens.show({ tokenId: rotated.id });
await mine.PersonalAccessTokens.remove({ tokenId: rotated.id });
seen.active = (await mine.PersonalAccessTokens.all({ state: "active" })).map((token) => token.name);
try {
  await api.Namespaces.show("nobody");
} catch (error) {
  seen.missing = [error.cause.response.status, error.cause.description];
}
console.log(JSON.stringify(seen));
