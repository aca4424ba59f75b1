// Prints what @gitbeaker/rest reads and changes of the packages of a project, as one JSON object.
// usage: packages.mjs LIBRARIES URL TOKEN
import { createRequire } from "node:module";

const [libraries, host, token] = process.argv.slice(2);
const { Gitlab } = createRequire(`${libraries}/`)("@gitbeaker/rest");

const { Packages } = new Gitlab({ host, token });
const project = "acme/open";
const packages = await Packages.all({ projectId: project, perPage: 2 });
const seen = {
  versions: packages.map((row) => row.version),
  of_group: (await Packages.all({ groupId: "acme", orderBy: "version", sort: "desc", perPage: 2 })).map((row) => row.version),
};
const one = await Packages.show(project, packages[1].id);
seen.one = [one.name, one.version, one.package_type, one.status];
const files = await Packages.allFiles(project, packages[1].id);
seen.files = files.map((file) => file.file_name);
await Packages.removeFile(project, packages[1].id, files[0].id);
await Packages.remove(project, packages[0].id);
seen.left = (await Packages.all({ projectId: project })).map((row) => row.version);
try {
  await Packages.show(project, packages[0].id);
} catch (error) {
  seen.missing = error.cause.response.status;
}
console.log(JSON.stringify(seen));
