// Uses a repository with isomorphic-git. Prints the results as one JSON object, as git_client.py does.
//
// usage: git_client.mjs LIBRARIES URL TOKEN PUBLIC_URL FOLDER

import fs from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [libraries, url, token, publicUrl, folder] = process.argv.slice(2);
const load = createRequire(join(libraries, "package.json"));
const git = load("isomorphic-git");
const http = load("isomorphic-git/http/node");

const branch = "by-client";
const onAuth = () => ({ username: "git", password: token });
const author = { name: "A", email: "a@example.com" };
const clone = async (address, name, more) => {
  const dir = join(folder, name);
  await git.clone({ fs, http, dir, url: address, ...more });
  return dir;
};
const head = (dir, ref = "HEAD") => git.resolveRef({ fs, dir, ref });
const commits = async (dir) => (await git.log({ fs, dir })).length;

const first = await clone(url, "first", { onAuth });
const second = await clone(url, "second", { onAuth });
const shallow = await clone(url, "shallow", { onAuth, depth: 1 });
const open = await clone(publicUrl, "public", {});
const seen = {
  head: await head(first),
  commits: await commits(first),
  shallow: [await head(shallow), await commits(shallow)],
  public: await head(open),
};
fs.writeFileSync(join(second, "new.txt"), "isomorphic-git");
await git.add({ fs, dir: second, filepath: "new.txt" });
seen.pushed = await git.commit({ fs, dir: second, message: "new", author });
await git.push({ fs, http, dir: second, onAuth, ref: await git.currentBranch({ fs, dir: second }), remoteRef: branch });
await git.fetch({ fs, http, dir: first, onAuth, remoteRef: branch });
seen.fetched = await head(first, `refs/remotes/origin/${branch}`);
seen.refused = await clone(url, "anonymous", {}).then(() => false, (error) => error.data?.statusCode === 401);
console.log(JSON.stringify(seen));
